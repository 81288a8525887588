package child

import (
	"context"
	"reflect"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/controlplane/child/karpenter"
	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

// launchTimeout is how long EKS may take to answer the controllers of EKS Auto Mode.
const launchTimeout = time.Minute

// runAutoMode runs the controllers of EKS Auto Mode while it is enabled, until ctx ends. While it is disabled, it costs
// nothing.
func (l *logs) runAutoMode(ctx context.Context, loopback *rest.Config) {
	for ctx.Err() == nil {
		setting, changed := l.autoMode.get()
		if setting == nil {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		running, stop := context.WithCancel(ctx)
		go func() {
			select {
			case <-changed:
			case <-running.Done():
			}
			stop()
		}()
		err := karpenter.Run(running, karpenter.Config{
			REST: loopback, Setting: *setting, Log: klog.FromContext(ctx),
			EKS: func(ctx context.Context, call automode.Call) (automode.Answer, error) {
				message := launch.AutoMode{Call: &call}
				if err := l.daemon.call(ctx, launch.AutoModePath, launchTimeout, &message); err != nil {
					return automode.Answer{}, err
				}
				return *message.Answer, nil
			},
		})
		if err != nil && running.Err() == nil {
			klog.ErrorS(err, "The controllers of EKS Auto Mode stopped")
			_ = pause(running, cloudRetry)
		}
		stop()
	}
}

// An autoModeSetting is the setting of EKS Auto Mode, nil if it is disabled. Its zero value is disabled.
type autoModeSetting struct {
	mu      sync.Mutex
	setting *automode.Setting
	changed chan struct{} // closed at the next change
}

// get returns the setting, and a channel that is closed when it changes.
func (s *autoModeSetting) get() (*automode.Setting, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.setting, s.changed
}

func (s *autoModeSetting) set(to *automode.Setting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reflect.DeepEqual(s.setting, to) {
		return
	}
	s.setting = to
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}
