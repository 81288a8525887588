package programs

import (
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	"sigs.k8s.io/metrics-server/cmd/metrics-server/app"
)

// runMetricsServer is upstream's metrics-server with the arguments of its container.
func runMetricsServer(args []string) int {
	c := app.NewMetricsServerCommand(genericapiserver.SetupSignalHandler())
	c.SetArgs(args)
	return cli.Run(c)
}
