package child

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
)

// A user who asks for a log learns why there is none, and nothing about how the daemon passed that on.
func TestSpeakPlainly(t *testing.T) {
	for said, want := range map[string]string{
		"proxy error from /data/egress.sock while dialing 10.0.0.1:10250, code 503: 503 pods on simulated nodes run nothing: no, code 503: 503 x": "pods on simulated nodes run nothing: no, code 503: 503 x",
		"dial unix /data/egress.sock: connect: connection refused":                                                                                "dial unix /data/egress.sock: connect: connection refused",
	} {
		dial := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New(said) }
		kubelets := egressselector.Lookup(func(egressselector.NetworkContext) (utilnet.DialFunc, error) { return dial, nil })
		proxy := &http.Transport{DialContext: dial}
		speakPlainly(&kubelets, proxy)
		kubelet, err := kubelets(egressselector.Cluster.AsNetworkContext())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []utilnet.DialFunc{kubelet, proxy.DialContext} {
			if _, err := d(t.Context(), "tcp", "10.0.0.1:10250"); err == nil || err.Error() != want {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	}
}
