package controlplane

import (
	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

// etcd returns where a plane's Kubernetes state is.
func (m *Manager) etcd(id string) launch.Etcd {
	access := m.cfg.Store.EtcdAccess()
	return launch.Etcd{
		Endpoints: access.Endpoints,
		Prefix:    m.cfg.Store.ClusterPrefix(id),
		CAFile:    access.CAFile,
		CertFile:  access.CertFile,
		KeyFile:   access.KeyFile,
	}
}
