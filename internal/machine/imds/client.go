package imds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// ErrNotFound is a Client's error for a missing resource.
var ErrNotFound = errors.New("not found")

// A Client makes requests as tools on the instance do, with version 2. It is for runtimes that boot thousands of
// instances in this process, for which the SDK's client does too much. It keeps no token: each Get requests one.
type Client struct {
	// Transport leads to a metadata service; Service.Transport returns one.
	Transport http.RoundTripper
}

const endpoint = "http://169.254.169.254/latest/"

func (c Client) do(ctx context.Context, method, path string, header, value string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, endpoint+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set(header, value)
	resp, err := c.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	case http.StatusNotFound:
		return nil, ErrNotFound
	default:
		return nil, fmt.Errorf("%s %s%s: %s", method, endpoint, path, resp.Status)
	}
}

// Get returns what is at a path below /latest: user-data, meta-data/mac.
func (c Client) Get(ctx context.Context, path string) ([]byte, error) {
	token, err := c.do(ctx, http.MethodPut, "api/token", ttlHeader, "60")
	if err != nil {
		return nil, err
	}
	return c.do(ctx, http.MethodGet, path, tokenHeader, string(token))
}

// Credentials returns the credentials of the instance's role. It returns a *RoleError if EC2 cannot provide any, and
// ErrNotFound if the instance has no profile.
func (c Client) Credentials(ctx context.Context) (Credentials, error) {
	const dir = "meta-data/iam/security-credentials/"
	role, err := c.Get(ctx, dir)
	if err != nil {
		return Credentials{}, err
	}
	name, _, _ := strings.Cut(string(role), "\n")
	text, err := c.Get(ctx, dir+name)
	if err != nil {
		return Credentials{}, err
	}
	var doc struct {
		Code, Message, AccessKeyID, SecretAccessKey, Token string
		Expiration                                         time.Time
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return Credentials{}, fmt.Errorf("reading the credentials of %s: %w", name, err)
	}
	if doc.Code != "Success" {
		return Credentials{}, &RoleError{Code: doc.Code, Message: doc.Message}
	}
	return Credentials{doc.AccessKeyID, doc.SecretAccessKey, doc.Token, doc.Expiration}, nil
}
