package app

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
)

func TestAuthorityIssuesForAWSNamesOnly(t *testing.T) {
	dir := t.TempDir()
	a, err := openAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := openAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	for name, ok := range map[string]bool{
		"": true, "localhost": true, "eks.us-east-1.amazonaws.com": true, "EC2.amazonaws.com": true, "ec2.us-east-1.api.aws": true,
		"example.com": false, "amazonaws.com.example.com": false,
	} {
		c, err := again.certificate(&tls.ClientHelloInfo{ServerName: name})
		if (err == nil) != ok {
			t.Errorf("certificate for %q: %v, want one: %v", name, err, ok)
			continue
		}
		if !ok {
			continue
		}
		if name == "" {
			name = "127.0.0.1"
		}
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name}); err != nil {
			t.Errorf("certificate for %q, after a restart: %v", name, err)
		}
	}
}
