// Command csi contains the programs of EKS's add-ons for EBS volumes; the name by which it is called selects one. The
// controllers are upstream's packages; their commands do not fit into one program, and several programs would make Drydock
// much larger. The driver is Drydock's own, because upstream's is not available as a module. It implements the same CSI
// services with the same EC2 calls, and provides volumes by bind mounts, because machines have no block devices.
//
// It is a separate module because the controllers need a newer Kubernetes client than Drydock's.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/klog/v2"
)

func main() {
	commands := map[string]func(ctx context.Context, args []string) error{
		"aws-ebs-csi-driver":        driver,
		"csi-provisioner":           provision,
		"csi-attacher":              attach,
		"csi-resizer":               resize,
		"csi-snapshotter":           snapshot,
		"snapshot-controller":       controlSnapshots,
		"csi-node-driver-registrar": register,
		"livenessprobe":             probe,
	}
	name := filepath.Base(os.Args[0])
	command, ok := commands[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "%q is not one of this program's names\n", name)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		klog.ErrorS(err, name+" has failed")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	klog.Flush()
}

// flags returns an empty set with the flags of the log.
func flags() *flag.FlagSet {
	fs := flag.NewFlagSet(filepath.Base(os.Args[0]), flag.ExitOnError)
	klog.InitFlags(fs)
	fs.String("logging-format", "text", "text; other formats are not implemented")
	return fs
}
