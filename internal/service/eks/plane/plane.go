// Package plane reaches the control planes of clusters: the interface through which EKS
// asks for them, the connections it keeps open to them, and the objects it applies in
// them. It knows control planes by their IDs and does not read the records of clusters.
package plane

import (
	"log/slog"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Config connects sessions to control planes. All of it is required.
type Config struct {
	ControlPlanes ControlPlanes
	NewClient     func(*rest.Config) (kubernetes.Interface, error)
	NewObjects    func(*rest.Config) (Objects, error)
	Log           *slog.Logger
}
