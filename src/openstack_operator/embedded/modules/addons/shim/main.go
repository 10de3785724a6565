// containerd's shim for runc, which collects garbage less often: it is alone with one pod and lives long, and tells the Go
// runtime to save memory above all. While dozens of pods start at once, half of its CPU time is that. It gives back what
// it does not need every thirty seconds anyway.
package main

import (
	"context"
	"runtime/debug"

	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/manager"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/task/plugin"
	"github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
)

// The heap may grow so far, in percent of what is in use, before it is collected: to 16 MiB at least.
const growth = 400

func main() {
	// The shim sets its own growth as it starts; plugins are loaded after that.
	registry.Register(&plugin.Registration{
		Type: plugins.InternalPlugin,
		ID:   "growth",
		InitFn: func(*plugin.InitContext) (any, error) {
			debug.SetGCPercent(growth)
			return struct{}{}, nil
		},
	})
	shim.RunShim(context.Background(), manager.NewShimManager("io.containerd.runc.v2"))
}
