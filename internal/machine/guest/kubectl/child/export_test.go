package child

import (
	"io"
	"net/http"

	"github.com/xtaci/smux"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/drydock-dev/drydock/internal/machine/guest/kubectl"
)

// CloseHost is closeHost.
var CloseHost = closeHost

// Outputs returns the standard output and error of a kubectl.
func Outputs(control *smux.Stream) (stdout, stderr io.Writer) {
	p := &process{control: control}
	return output{p, false}, output{p, true}
}

// Authenticated returns transports of clients that share their credentials.
func Authenticated(run func(args, env []string) (kubectl.Reply, error), rt http.RoundTripper) func(*api.ExecConfig) http.RoundTripper {
	c := &credentials{run: run}
	return func(x *api.ExecConfig) http.RoundTripper {
		s, err := c.of(x)
		if err != nil {
			panic(err)
		}
		return &bearer{rt, s}
	}
}
