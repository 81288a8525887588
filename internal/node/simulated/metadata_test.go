package simulated_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/imds"
	"github.com/drydock-dev/drydock/internal/node"
)

// metadata serves every instance with the same user data.
type metadata struct {
	userData []byte
	disabled bool
}

func (m *metadata) Instance(_ context.Context, id string) (imds.Instance, error) {
	return imds.Instance{Instance: machine.Instance{ID: id, UserData: m.userData}, Options: imds.Options{TokensRequired: true, HopLimit: 1, Disabled: m.disabled}}, nil
}

func (m *metadata) Interfaces(context.Context, string) ([]imds.Interface, error) { return nil, nil }

func (m *metadata) Credentials(context.Context, string, int) (imds.Credentials, error) {
	return imds.Credentials{}, imds.NoProfile()
}

// User data comes from the instance metadata service: without it a machine does not know what to join.
func TestUserDataFromMetadata(t *testing.T) {
	for _, tc := range []struct {
		name     string
		disabled bool
		phase    node.Phase
		failed   string
	}{
		{"enabled", false, node.PhaseReady, ""},
		{"disabled", true, node.PhaseRunning, "metadata: reading user data from the instance metadata service: PUT http://169.254.169.254/latest/api/token: 403 Forbidden"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{t: t, api: newFakeAPI(t), ec2: newFakeEC2(100)}
				in := b.instance()
				src := &metadata{userData: in.UserData, disabled: tc.disabled}
				in.UserData = nil
				s := imds.New(imds.Config{Source: src, Secret: []byte("secret")})
				b.metadata = func(id string) http.RoundTripper { return s.Transport(id, 1) }
				b.start()
				t.Cleanup(func() {
					if err := b.rt.Shutdown(context.Background()); err != nil {
						t.Error(err)
					}
				})
				b.launch(in)
				after(time.Second)
				if got := b.info(); got.Phase != tc.phase || strings.Join(b.failedSteps(), "\n") != tc.failed {
					t.Errorf("%+v, failed steps %q", got, b.failedSteps())
				}
			})
		})
	}
}
