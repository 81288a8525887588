package compute

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	clocks "k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestMetadataThatDoesNotAnswer(t *testing.T) {
	set := fault.NewSet(fault.Config{})
	set.Replace([]fault.Fault{{ID: "F-1", Kind: fault.IMDS, Account: awsapi.DefaultAccount, Region: testkit.Region, Instance: "i-1"}})
	m := &Machines{cfg: Config{Faults: set}, network: &guestNetwork{clock: clocks.RealClock{}}, running: map[string]machine.Instance{}}
	for _, id := range []string{"i-1", "i-2"} {
		m.running[id] = machine.Instance{Account: awsapi.DefaultAccount, Region: testkit.Region, ID: id}
	}
	well := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(""))}, nil
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://169.254.169.254/latest/meta-data/", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&faultyMetadata{m, "i-1", well}).RoundTrip(req) //nolint:bodyclose // there is none
	var ne net.Error
	if why := node.DecisionOf(err); !errors.As(err, &ne) || !ne.Timeout() || why == nil || why.By != node.ByFault || why.Component != "F-1" || err.Error() != "dial tcp 169.254.169.254:80: i/o timeout" {
		t.Errorf("%v, because of %+v", err, node.DecisionOf(err))
	}
	resp, err := (&faultyMetadata{m, "i-2", well}).RoundTrip(req)
	if err != nil {
		t.Fatalf("another instance's: %v", err)
	}
	_ = resp.Body.Close()
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A repeated failure has the same text, so a step is recorded only once.
func TestDNSThatDoesNotAnswer(t *testing.T) {
	source := netip.MustParseAddr("10.0.0.5")
	err := noAnswer(source, "ec2.us-east-1.amazonaws.com")
	if again := noAnswer(source, "ec2.us-east-1.amazonaws.com"); err.Error() != again.Error() || !err.Timeout() {
		t.Errorf("%v, then %v", err, again)
	}
	if want := "lookup ec2.us-east-1.amazonaws.com on 169.254.169.253:53: read udp 10.0.0.5:"; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s…", err, want)
	}
}
