// The benchmark's toy operator on controller-runtime, written as its documentation teaches: a manager with leader
// election, Owns for each kind of child, CreateOrUpdate with mutate functions that set what is wanted, and one patch of
// status when it changed. `peer KUBECONFIG NAMESPACE LEASE USER-AGENT`.

package main

import (
	"context"
	"fmt"
	"log"
	"maps"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

type reconciler struct {
	client.Client
}

// Reconcile brings the children of one Toy to the wanted state and says in status what was found.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	toy := &Toy{}
	if err := r.Get(ctx, request.NamespacedName, toy); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.ensureConfigMap(ctx, toy); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.ensureSecret(ctx, toy); err != nil {
		return ctrl.Result{}, err
	}
	ready, err := r.ensureDeployment(ctx, toy)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.writeStatus(ctx, toy, ready)
}

func (r *reconciler) ensureConfigMap(ctx context.Context, toy *Toy) error {
	child := &corev1.ConfigMap{ObjectMeta: named(toy)}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		child.Data = map[string]string{"text": toy.Spec.Text}
		return controllerutil.SetControllerReference(toy, child, r.Scheme())
	})
	return err
}

func (r *reconciler) ensureSecret(ctx context.Context, toy *Toy) error {
	child := &corev1.Secret{ObjectMeta: named(toy)}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		child.Data = map[string][]byte{"password": []byte("generated")}
		return controllerutil.SetControllerReference(toy, child, r.Scheme())
	})
	return err
}

func (r *reconciler) ensureDeployment(ctx context.Context, toy *Toy) (int32, error) {
	labels := map[string]string{"app": toy.Name}
	child := &appsv1.Deployment{ObjectMeta: named(toy)}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		spec := &child.Spec
		spec.Replicas = toy.Spec.Replicas
		if spec.Selector == nil {
			// Immutable, and so set only in a new object.
			spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		}
		if spec.Template.Labels == nil {
			spec.Template.Labels = map[string]string{}
		}
		maps.Copy(spec.Template.Labels, labels)
		// Field by field: what the server has filled in stays, and an unchanged object is not written.
		if len(spec.Template.Spec.Containers) != 1 {
			spec.Template.Spec.Containers = make([]corev1.Container, 1)
		}
		container := &spec.Template.Spec.Containers[0]
		container.Name, container.Image = "toy", "localhost/toy:1"
		container.Env = []corev1.EnvVar{{Name: "TEXT", Value: toy.Spec.Text}}
		container.Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("500m"),
			corev1.ResourceMemory: resource.MustParse("1Gi"),
		}
		container.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
		spec.Template.Spec.Volumes = []corev1.Volume{{
			Name:         "scratch",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		}}
		return controllerutil.SetControllerReference(toy, child, r.Scheme())
	})
	return child.Status.ReadyReplicas, err
}

func (r *reconciler) writeStatus(ctx context.Context, toy *Toy, ready int32) error {
	before := toy.DeepCopy()
	wanted := ptr.Deref(toy.Spec.Replicas, 1)
	toy.Status.ObservedGeneration = toy.Generation
	toy.Status.Size = int64(len(toy.Spec.Text))
	set := func(kind string, isTrue bool, reason, message string) {
		condition := metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message,
			ObservedGeneration: toy.Generation,
		}
		if isTrue {
			condition.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&toy.Status.Conditions, condition)
	}
	isReady := ready >= wanted
	reason, message := "Ready", fmt.Sprintf("%d pods are ready", ready)
	if !isReady {
		reason, message = "PodsNotReady", fmt.Sprintf("Deployment %s: %d of %d pods are ready", toy.Name, ready, wanted)
	}
	set("Ready", isReady, reason, message)
	set("ConfigReady", true, "Ready", "")
	set("SecretReady", true, "Ready", "")
	set("WorkloadReady", isReady, reason, message)
	set("Reconciling", !isReady, reason, message)
	set("Stalled", false, reason, "")
	if equality.Semantic.DeepEqual(before.Status, toy.Status) {
		return nil
	}
	return r.Status().Patch(ctx, toy, client.MergeFrom(before))
}

func named(toy *Toy) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: toy.Name, Namespace: toy.Namespace}
}

func run(kubeconfig, namespace, lease, agent string) error {
	ctrl.SetLogger(zap.New())
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = agent
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	addToScheme(scheme)
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              lease,
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Toy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Secret{}).
		Owns(&appsv1.Deployment{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(&reconciler{manager.GetClient()})
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: peer KUBECONFIG NAMESPACE LEASE USER-AGENT")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		log.Fatal(err)
	}
}
