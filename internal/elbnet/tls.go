package elbnet

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
)

// TLS returns the configuration of a listener with certificates, the default one first, and a security policy. Clients
// choose a certificate by the server's name. Only what crypto/tls supports is taken from a policy: the versions, and whether
// all cipher suites have forward secrecy.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/describe-ssl-policies.html
func (b *Base) TLS(ctx context.Context, sc regional.Scope, certificates []string, policy string, protocols ...string) (*tls.Config, error) {
	lowest, highest := versions(policy)
	out := &tls.Config{MinVersion: lowest, MaxVersion: highest, NextProtos: protocols}
	if lowest < tls.VersionTLS13 && !forwardSecret(policy) {
		for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
			if !strings.Contains(s.Name, "RC4") && !strings.Contains(s.Name, "3DES") {
				out.CipherSuites = append(out.CipherSuites, s.ID)
			}
		}
	}
	for _, c := range certificates {
		pair, err := b.KeyPair(ctx, sc.Account, sc.Region, c)
		if err != nil {
			return nil, fmt.Errorf("the certificate %s: %w", c, err)
		}
		out.Certificates = append(out.Certificates, pair)
	}
	return out, nil
}

// forwardSecret reports whether all cipher suites of a security policy have forward secrecy.
func forwardSecret(policy string) bool {
	return strings.Contains(policy, "-FS-") || strings.Contains(policy, "-Res-") || strings.Contains(policy, "-TLS13-1-2-") && !strings.Contains(policy, "-Ext")
}

// versions returns the lowest and the highest version of a security policy, by its name.
func versions(policy string) (lowest, highest uint16) {
	highest = tls.VersionTLS12
	if strings.Contains(policy, "-TLS13-") {
		highest = tls.VersionTLS13
	}
	for text, v := range map[string]uint16{"-TLS13-1-3-": tls.VersionTLS13, "-1-2-": tls.VersionTLS12, "-1-1-": tls.VersionTLS11} {
		if strings.Contains(policy, text) {
			return v, highest
		}
	}
	return tls.VersionTLS10, highest
}
