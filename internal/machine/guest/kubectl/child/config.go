package child

import (
	"fmt"
	"net/http"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// A getter reads the kubeconfig from the machine's files and connects by the machine's network.
type getter struct {
	p     *process
	flags *genericclioptions.ConfigFlags

	discovery func() (discovery.CachedDiscoveryInterface, error)
}

var _ genericclioptions.RESTClientGetter = (*getter)(nil)

func newGetter(p *process, flags *genericclioptions.ConfigFlags) *getter {
	g := &getter{p: p, flags: flags}
	g.discovery = sync.OnceValues(func() (discovery.CachedDiscoveryInterface, error) {
		cfg, err := g.ToRESTConfig()
		if err != nil {
			return nil, err
		}
		cfg.QPS, cfg.Burst = 50, 300 // as kubectl
		client, err := discovery.NewDiscoveryClientForConfig(cfg)
		if err != nil {
			return nil, err
		}
		return memory.NewMemCacheClient(client), nil
	})
	return g
}

// ToDiscoveryClient implements genericclioptions.RESTClientGetter.
func (g *getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.discovery()
}

// ToRESTMapper implements genericclioptions.RESTClientGetter.
func (g *getter) ToRESTMapper() (meta.RESTMapper, error) {
	client, err := g.discovery()
	if err != nil {
		return nil, err
	}
	return restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(client), client, nil), nil
}

// ToRESTConfig implements genericclioptions.RESTClientGetter.
func (g *getter) ToRESTConfig() (*rest.Config, error) {
	cfg, err := g.ToRawKubeConfigLoader().ClientConfig()
	if err != nil {
		return nil, err
	}
	cfg.Dial = g.p.dial
	if x := cfg.ExecProvider; x != nil {
		cfg.ExecProvider = nil
		source, err := g.p.credentials.of(x)
		if err != nil {
			return nil, err
		}
		cfg.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { return &bearer{rt, source} }
	}
	return cfg, nil
}

// ToRawKubeConfigLoader implements genericclioptions.RESTClientGetter.
func (g *getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	cfg, err := g.load()
	if err != nil {
		return failed{err}
	}
	f := g.flags
	o := &clientcmd.ConfigOverrides{ClusterDefaults: clientcmd.ClusterDefaults, CurrentContext: *f.Context, Timeout: *f.Timeout}
	o.AuthInfo.Token, o.AuthInfo.Impersonate, o.AuthInfo.ImpersonateUID, o.AuthInfo.ImpersonateGroups = *f.BearerToken, *f.Impersonate, *f.ImpersonateUID, *f.ImpersonateGroup
	o.AuthInfo.ClientCertificate, o.AuthInfo.ClientKey = *f.CertFile, *f.KeyFile
	o.ClusterInfo.Server, o.ClusterInfo.TLSServerName, o.ClusterInfo.CertificateAuthority = *f.APIServer, *f.TLSServerName, *f.CAFile
	o.ClusterInfo.InsecureSkipTLSVerify, o.ClusterInfo.DisableCompression = *f.Insecure, *f.DisableCompression
	o.Context.Cluster, o.Context.AuthInfo, o.Context.Namespace = *f.ClusterName, *f.AuthInfoName, *f.Namespace
	if err := g.inline(cfg, o); err != nil {
		return failed{err}
	}
	return clientcmd.NewNonInteractiveClientConfig(*cfg, "", o, g)
}

// inline replaces the names of files in a configuration by their contents, because clientcmd would read the host's files.
func (g *getter) inline(cfg *api.Config, o *clientcmd.ConfigOverrides) error {
	var failure error
	context := cfg.Contexts[cfg.CurrentContext]
	if o.CurrentContext != "" {
		context = cfg.Contexts[o.CurrentContext]
	}
	read := func(what, owner, origin string, name *string, data *[]byte, used bool) {
		if *name == "" {
			return
		}
		if len(*data) == 0 {
			file := *name
			if !path.IsAbs(file) && origin != "" {
				file = path.Join(path.Dir(origin), file)
			}
			b, err := g.p.read(file)
			if err != nil && used && failure == nil {
				failure = fmt.Errorf("invalid configuration: unable to read %s %s for %s due to %w", what, file, owner, err)
			}
			*data = b
		}
		*name = ""
	}
	for name, c := range cfg.Clusters {
		read("certificate-authority", name, c.LocationOfOrigin, &c.CertificateAuthority, &c.CertificateAuthorityData, context != nil && context.Cluster == name)
	}
	for name, u := range cfg.AuthInfos {
		used := context != nil && context.AuthInfo == name
		read("client-cert", name, u.LocationOfOrigin, &u.ClientCertificate, &u.ClientCertificateData, used)
		read("client-key", name, u.LocationOfOrigin, &u.ClientKey, &u.ClientKeyData, used)
		token := []byte(u.Token)
		read("token", name, u.LocationOfOrigin, &u.TokenFile, &token, used)
		u.Token = strings.TrimSpace(string(token))
		u.AuthProvider = nil // none is built in
	}
	read("certificate-authority", "cluster", "", &o.ClusterInfo.CertificateAuthority, &o.ClusterInfo.CertificateAuthorityData, true)
	read("client-cert", "user", "", &o.AuthInfo.ClientCertificate, &o.AuthInfo.ClientCertificateData, true)
	read("client-key", "user", "", &o.AuthInfo.ClientKey, &o.AuthInfo.ClientKeyData, true)
	return failure
}

// load reads and merges the kubeconfig files.
func (g *getter) load() (*api.Config, error) {
	out := api.NewConfig()
	for _, name := range g.GetLoadingPrecedence() {
		b, err := g.p.read(name)
		if err != nil && g.IsExplicitFile() {
			return nil, fmt.Errorf("stat %s: no such file or directory", name) // as os.Stat
		}
		if err != nil {
			continue
		}
		cfg, err := clientcmd.Load(b)
		if err != nil {
			return nil, fmt.Errorf("error loading config file %q: %w", name, err)
		}
		for k, v := range cfg.Clusters {
			if v.LocationOfOrigin = name; out.Clusters[k] == nil {
				out.Clusters[k] = v
			}
		}
		for k, v := range cfg.AuthInfos {
			if v.LocationOfOrigin = name; out.AuthInfos[k] == nil {
				out.AuthInfos[k] = v
			}
		}
		for k, v := range cfg.Contexts {
			if v.LocationOfOrigin = name; out.Contexts[k] == nil {
				out.Contexts[k] = v
			}
		}
		if out.CurrentContext == "" {
			out.CurrentContext = cfg.CurrentContext
		}
	}
	return out, nil
}

// The methods below make a getter a clientcmd.ConfigAccess.

// GetLoadingPrecedence implements clientcmd.ConfigAccess.
func (g *getter) GetLoadingPrecedence() []string {
	if name := *g.flags.KubeConfig; name != "" {
		return []string{g.p.path(name)}
	}
	var out []string
	for _, name := range filepath.SplitList(g.p.getenv("KUBECONFIG")) {
		if name != "" {
			out = append(out, g.p.path(name))
		}
	}
	if len(out) == 0 {
		out = append(out, path.Join("/", g.p.getenv("HOME"), ".kube/config"))
	}
	return out
}

// GetStartingConfig implements clientcmd.ConfigAccess.
func (g *getter) GetStartingConfig() (*api.Config, error) { return g.load() }

// GetDefaultFilename implements clientcmd.ConfigAccess.
func (g *getter) GetDefaultFilename() string { return g.GetLoadingPrecedence()[0] }

// IsExplicitFile implements clientcmd.ConfigAccess.
func (g *getter) IsExplicitFile() bool { return *g.flags.KubeConfig != "" }

// GetExplicitFile implements clientcmd.ConfigAccess.
func (g *getter) GetExplicitFile() string { return *g.flags.KubeConfig }

// failed is a kubeconfig that cannot be read.
type failed struct{ err error }

func (f failed) RawConfig() (api.Config, error)       { return api.Config{}, f.err }
func (f failed) ClientConfig() (*rest.Config, error)  { return nil, f.err }
func (f failed) Namespace() (string, bool, error)     { return "", false, f.err }
func (f failed) ConfigAccess() clientcmd.ConfigAccess { return nil }
