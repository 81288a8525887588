package plane

import (
	"context"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
)

// onePlane has control planes with the same ID, one after the other.
type onePlane struct {
	ControlPlanes
	released chan struct{}
}

func (p *onePlane) Released(string) <-chan struct{} { return p.released }

func (p *onePlane) RESTConfig(id string) (*rest.Config, error) { return &rest.Config{Host: id}, nil }

// A session of a plane that was released is not used for another plane with the same ID.
func TestSessionsEndWithTheirPlane(t *testing.T) {
	planes := &onePlane{released: make(chan struct{})}
	ss := NewSessions(Config{
		ControlPlanes: planes,
		NewClient:     func(*rest.Config) (kubernetes.Interface, error) { return fake.NewClientset(), nil },
		NewObjects:    func(*rest.Config) (Objects, error) { return nil, nil },
	})
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); ss.Run(ctx, ready) }()
	<-ready
	get := func() *Session {
		t.Helper()
		s, err := ss.Get("P")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := get()
	if get() != first || first.Context.Err() != nil {
		t.Error("a session does not last")
	}
	close(planes.released)
	planes.released = make(chan struct{})
	if second := get(); second == first || first.Context.Err() == nil || second.Context.Err() != nil || get() != second {
		t.Errorf("the session of the old plane ended: %v, and a new one lives: %v", first.Context.Err(), second.Context.Err())
	}
	stop()
	<-ended
}
