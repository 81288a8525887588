package cli

import (
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/api"
)

// A podEnv builds the environment of a command that runs as a pod.
type podEnv struct {
	run        *api.PodRun
	dir        string // the folder of the pod's files
	pod        string
	listener   string // HOST:PORT of AWS, of the metadata service, of the agent, and of a proxy
	kubernetes string // HOST:PORT of the cluster's API
	bundle, ca string // certificate files: of all trusted CAs, and of Drydock's
}

// ofThisMachine are the variables that keep their values, because they name things that a container does not have.
var ofThisMachine = []string{"PATH", "HOME", "TMPDIR", "PWD", "SHELL", "USER", "LOGNAME"}

// ofTheUser are the AWS variables that do not identify the caller.
var ofTheUser = []string{"AWS_PAGER", "AWS_DEFAULT_OUTPUT", "AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE", "AWS_CLI_AUTO_PROMPT"}

// kept reports whether the command inherits a variable of the caller.
func kept(name string) bool {
	switch upper := strings.ToUpper(name); upper {
	case "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "KUBECONFIG", "BOTO_CONFIG",
		"DRYDOCK_TOKEN", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS":
		return false
	default:
		return !strings.HasPrefix(upper, "KUBERNETES_") && (!strings.HasPrefix(upper, "AWS_") || slices.Contains(ofTheUser, name))
	}
}

// environ returns base without the caller's identity, followed by the container's variables.
func (e *podEnv) environ(base []string) []string {
	vars := map[string]string{}
	for name, value := range e.run.Env {
		if !slices.Contains(ofThisMachine, name) {
			vars[name] = e.inDir(value)
		}
	}
	e.aws(vars)
	e.proxy(vars)
	host, port, _ := net.SplitHostPort(e.kubernetes) // that of a listener
	vars["KUBERNETES_SERVICE_HOST"], vars["KUBERNETES_SERVICE_PORT"], vars["KUBERNETES_SERVICE_PORT_HTTPS"] = host, port, port
	vars["KUBECONFIG"], vars["DRYDOCK_POD_FILES"] = podFiles{e.dir}.kubeconfig(), e.dir
	vars["HOSTNAME"], vars["HOME"] = e.pod, podFiles{e.dir}.home()

	var out []string
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		if _, ours := vars[name]; !ours && kept(name) {
			out = append(out, kv)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		out = append(out, name+"="+vars[name])
	}
	return out
}

// inDir returns a value that names something in the pod's volumes as a path on this machine, if it is here.
func (e *podEnv) inDir(value string) string {
	for _, m := range e.run.Mounts {
		if value == m || strings.HasPrefix(value, m+"/") {
			return podFiles{e.dir}.file(value)
		}
	}
	return value
}

// aws directs SDKs to the run's listener with the variables that all of them support: not all use proxies, and none
// does for every request.
func (e *podEnv) aws(vars map[string]string) {
	here := "http://" + e.listener
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS"} {
		// The webhook's values contain the daemon's own address, where the caller would be the user.
		if u, err := url.Parse(vars[name]); vars[name] == "" || err == nil && loopback(u.Hostname()) {
			vars[name] = "https://" + e.listener // as on AWS: policies may ask for aws:SecureTransport
		}
	}
	const agent, metadata = "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_EC2_METADATA_SERVICE_ENDPOINT"
	for _, name := range []string{agent, metadata} {
		if u, err := url.Parse(vars[name]); err == nil && linkLocal(u.Hostname()) {
			vars[name] = here + u.Path
		}
	}
	if vars[metadata] == "" {
		vars[metadata] = here
	}
	// Otherwise some programs would read the caller's files, because not every program finds them through HOME.
	for name, file := range map[string]string{"AWS_CONFIG_FILE": "aws-config", "AWS_SHARED_CREDENTIALS_FILE": "aws-credentials", "BOTO_CONFIG": "boto"} {
		if vars[name] == "" {
			vars[name] = podFiles{e.dir}.file(file) // a file that does not exist
		}
	}
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// linkLocal reports whether only instances and pods can reach a host.
func linkLocal(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && (a.Is4() && a.IsLinkLocalUnicast() || a.Is6() && strings.HasPrefix(a.String(), "fd00:ec2:"))
}

// proxy directs programs that do not use AWS's variables through the listener.
func (e *podEnv) proxy(vars map[string]string) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		vars[name], vars[strings.ToLower(name)] = "http://"+e.listener, "http://"+e.listener
	}
	for _, name := range []string{"ALL_PROXY", "all_proxy"} {
		delete(vars, name)
	}
	const direct = "localhost,127.0.0.1,::1"
	vars["NO_PROXY"], vars["no_proxy"] = direct, direct
	for _, name := range []string{"AWS_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"} {
		vars[name] = e.bundle
	}
	vars["NODE_EXTRA_CA_CERTS"] = e.ca
}
