package api

import "context"

// LoadBalancerURLs are the URLs of a load balancer on this machine.
type LoadBalancerURLs struct {
	Name      string        `json:"name"` // an ARN, or the name of a Classic Load Balancer
	DNSName   string        `json:"dnsName"`
	Listeners []ListenerURL `json:"listeners"`
}

// A ListenerURL is the URL of one listener.
type ListenerURL struct {
	Port     uint16 `json:"port"`
	Protocol string `json:"protocol"`
	// URL is http, https, tls or tcp://127.0.0.1:PORT, or empty if the listener carries no traffic.
	URL string `json:"url,omitempty"`
	// Problem says why nothing answers there. It is empty if something does.
	Problem string `json:"problem,omitempty"`
}

// URLs returns the URLs of a load balancer, which is given by its ARN, its name or its DNS name.
func (c *Client) URLs(ctx context.Context, p Place, name string) (LoadBalancerURLs, error) {
	return get[LoadBalancerURLs](ctx, c, "urls", p.values("name", name))
}

// ServiceURLs returns the URLs of the load balancer of a Service. cluster may be empty if there is only one.
func (c *Client) ServiceURLs(ctx context.Context, p Place, cluster, namespace, service string) (LoadBalancerURLs, error) {
	return get[LoadBalancerURLs](ctx, c, "urls", p.values("cluster", cluster, "namespace", namespace, "service", service))
}
