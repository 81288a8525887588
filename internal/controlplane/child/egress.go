package child

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
)

// speakPlainly makes failed connections to kubelets, including those of the proxy subresources, report only the
// daemon's reason.
func speakPlainly(kubelets *egressselector.Lookup, proxy *http.Transport) {
	if lookup := *kubelets; lookup != nil {
		*kubelets = func(n egressselector.NetworkContext) (utilnet.DialFunc, error) {
			dial, err := lookup(n)
			return plainly(dial), err
		}
	}
	if proxy != nil {
		proxy.DialContext = plainly(proxy.DialContext)
	}
}

// plainly removes what tunnelHTTPConnect of package egressselector puts before the reason: the path of a socket and,
// twice, a status code.
func plainly(dial utilnet.DialFunc) utilnet.DialFunc {
	if dial == nil {
		return nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			return conn, nil
		}
		if _, reason, ok := strings.Cut(err.Error(), ", code 503: 503 "); ok {
			err = errors.New(reason)
		}
		return nil, err
	}
}
