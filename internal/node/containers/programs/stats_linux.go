package programs

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	cadvisorapiv2 "github.com/google/cadvisor/info/v2"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"

	"github.com/drydock-dev/drydock/internal/node/containers/launch"
	"github.com/drydock-dev/drydock/internal/node/containers/usage"
)

// sized reports a machine's size instead of the host's. On machines without cgroup controllers it adds the memory that the
// processes use: the kernel still counts the CPU time of each cgroup, but no memory.
type sized struct {
	cadvisor.Interface
	cfg launch.Kubelet
	// uncounted says that the kernel does not count the memory of cgroups.
	uncounted bool

	mu     sync.Mutex
	memory map[string]usage.Memory // by cgroup, as of measured
	at     time.Time
}

func newSized(real cadvisor.Interface, cfg launch.Kubelet) *sized {
	_, err := os.Stat("/sys/fs/cgroup/memory.current")
	return &sized{Interface: real, cfg: cfg, uncounted: errors.Is(err, fs.ErrNotExist)}
}

// MachineInfo implements cadvisor.Interface.
func (s *sized) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	host, err := s.Interface.MachineInfo()
	if err != nil {
		return nil, err
	}
	m := host.Clone()
	m.NumCores, m.NumPhysicalCores, m.NumSockets = s.cfg.VCPU, max(s.cfg.VCPU/2, 1), 1
	m.MemoryCapacity, m.SwapCapacity = s.cfg.MemoryBytes, 0
	return m, nil
}

// freshness is how old statistics may be. cAdvisor takes them every 10 to 15 seconds otherwise, which metrics-server would
// add to its own interval.
const freshness = time.Second

// ContainerInfoV2 implements cadvisor.Interface. As cAdvisor's, it may return containers together with an error.
func (s *sized) ContainerInfoV2(name string, o cadvisorapiv2.RequestOptions) (map[string]cadvisorapiv2.ContainerInfo, error) {
	if o.MaxAge == nil {
		o.MaxAge = new(freshness)
	}
	infos, err := s.Interface.ContainerInfoV2(name, o)
	used := s.used()
	for name, info := range infos {
		if s.uncounted {
			addTo(&info, used[name])
		}
		if latest := len(info.Stats) - 1; name == "/" && latest >= 0 && info.Stats[latest].Memory != nil {
			info.Spec.Memory.Limit = max(s.cfg.MemoryBytes, info.Stats[latest].Memory.WorkingSet)
		}
		infos[name] = info
	}
	return infos, err
}

// addTo adds memory to the latest statistics. Unknown memory is left out: metrics-server then has no metrics of the pod, rather
// than a zero.
func addTo(info *cadvisorapiv2.ContainerInfo, m usage.Memory) {
	info.Spec.HasMemory = !m.Unknown
	if latest := len(info.Stats) - 1; latest >= 0 {
		stats := *info.Stats[latest] // cAdvisor keeps what it points to
		stats.Memory = nil
		if !m.Unknown {
			stats.Memory = &cadvisorapi.MemoryStats{Usage: m.Total, WorkingSet: m.Total, RSS: m.Anonymous}
		}
		info.Stats[latest] = &stats
	}
}

// used returns the memory that each cgroup uses. It is measured at most once a second.
func (s *sized) used() map[string]usage.Memory {
	if !s.uncounted {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) > freshness {
		s.memory, s.at = usage.Measure("/proc"), time.Now()
	}
	return s.memory
}
