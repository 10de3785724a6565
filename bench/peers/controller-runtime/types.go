// The kind Toy of the benchmark: what controller-gen would write for it is written by hand at the end.

package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "toys.example.org", Version: "v1"}

// ToySpec is what is wanted.
type ToySpec struct {
	Text     string `json:"text,omitempty"`
	Replicas *int32 `json:"replicas,omitempty"`
}

// ToyStatus is what was found.
type ToyStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Size               int64              `json:"size,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// Toy owns a ConfigMap, a Secret and a Deployment.
type Toy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ToySpec   `json:"spec,omitempty"`
	Status            ToyStatus `json:"status,omitempty"`
}

// ToyList is the answer to a LIST.
type ToyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Toy `json:"items"`
}

func addToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(groupVersion, &Toy{}, &ToyList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
}

// DeepCopyInto copies everything that is not a plain value.
func (in *Toy) DeepCopyInto(out *Toy) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Spec.Replicas != nil {
		replicas := *in.Spec.Replicas
		out.Spec.Replicas = &replicas
	}
	if in.Status.Conditions != nil {
		out.Status.Conditions = make([]metav1.Condition, len(in.Status.Conditions))
		for i := range in.Status.Conditions {
			in.Status.Conditions[i].DeepCopyInto(&out.Status.Conditions[i])
		}
	}
}

// DeepCopy returns a copy.
func (in *Toy) DeepCopy() *Toy {
	out := new(Toy)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject makes it a runtime.Object.
func (in *Toy) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopyObject makes it a runtime.Object.
func (in *ToyList) DeepCopyObject() runtime.Object {
	out := new(ToyList)
	*out = *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Toy, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}
