package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// RefuseBrowser answers r with 403 and returns true if a web page may have sent it. A daemon on loopback accepts
// well-known credentials, and simple requests need no preflight, so otherwise any page that the user visits could act
// as the user. Browsers are recognized by Origin, Sec-Fetch-Site or the user agent, which scripts can change in
// Firefox. A page that rebinds its own name to loopback is a same-origin caller without either header, so the name in
// Host must be one that a stranger's page cannot have: see allowedHost. allow holds the names that the user has
// allowed.
func RefuseBrowser(w http.ResponseWriter, r *http.Request, allow []string) bool {
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" || strings.HasPrefix(r.UserAgent(), "Mozilla/") {
		http.Error(w, "Drydock refuses requests from browsers, because any web page could act as you.", http.StatusForbidden)
		return true
	}
	if !allowedHost(r.Host, allow) {
		host := strings.ToLower(hostname(r.Host))
		http.Error(w, fmt.Sprintf("Drydock refuses the host name %.253q, because a web page could have pointed it at this machine.\nTry: drydock up --allow-host %.253s", host, host), http.StatusForbidden)
		return true
	}
	return false
}

// allowedHost reports whether a Host header names this machine or AWS: an IP address, localhost and names below it,
// which browsers never look up in DNS, AWS's own names, or one of allow, where *.example.com stands for every name
// below example.com. Browsers always send a Host header.
func allowedHost(host string, allow []string) bool {
	name := strings.ToLower(strings.TrimSuffix(hostname(host), "."))
	if name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") ||
		AWSHost(name) || strings.HasSuffix(name, ".amazonaws.com.cn") || name == "public.ecr.aws" {
		return true
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	for _, a := range allow {
		a = strings.ToLower(strings.TrimSuffix(a, "."))
		if below, ok := strings.CutPrefix(a, "*"); name == a || ok && strings.HasSuffix(name, below) {
			return true
		}
	}
	return false
}

// hostname returns a Host header without its port and the brackets of an IPv6 address.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}
