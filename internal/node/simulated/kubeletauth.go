package simulated

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/cache"
)

// The sizes and lifetimes of EKS's webhook caches.
const (
	tokensRemembered     = 2 * time.Minute
	permissionRemembered = 5 * time.Minute
	denialRemembered     = 30 * time.Second
	clientsRemembered    = 256
)

// reviewsPerKubelet bounds the concurrent questions of one kubelet to the cluster, whose nodes share callsPerCluster: a kubelet's
// client has limits, too.
const reviewsPerKubelet = 4

// finelyAuthorized is the minor version since which a kubelet asks for nodes/pods, nodes/healthz and nodes/configz before
// nodes/proxy (KEP 2862). The version before brought the text of the refusal.
const finelyAuthorized = 33

// A gatekeeper asks the cluster who the clients of a kubelet's API are and what they may do, as the kubelet does with
// authentication by webhook, without anonymous access, and authorization by webhook.
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/server/server.go (InstallAuthFilter) and auth.go
//
// AWS deviation: the API server cannot come with its client certificate, because it is not connected to simulated nodes.
type gatekeeper struct {
	k           *kubelet
	tokens      *cache.LRUExpireCache // *authenticationv1.UserInfo by hash
	permissions *cache.LRUExpireCache // bool by question
	reviews     chan struct{}         // holds one element for each question that is being asked
}

func newGatekeeper(k *kubelet) *gatekeeper {
	return &gatekeeper{
		k: k, reviews: make(chan struct{}, reviewsPerKubelet),
		tokens:      cache.NewLRUExpireCacheWithClock(clientsRemembered, k.m.rt.clock),
		permissions: cache.NewLRUExpireCacheWithClock(clientsRemembered, k.m.rt.clock),
	}
}

// admit returns the status and text with which a request is refused; zero means that it is not.
func (g *gatekeeper) admit(r *http.Request) (status int, text string) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "bearer") || token == "" {
		return http.StatusUnauthorized, "Unauthorized"
	}
	user, err := g.authenticate(r.Context(), token)
	if err != nil {
		g.k.os.klog('E', "server.go:376", "Unable to authenticate the request due to an error", "err", err.Error())
		return http.StatusUnauthorized, "Unauthorized"
	}
	verb := map[string]string{"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[r.Method]
	version := minor(g.k.m.in.Image.KubeletVersion)
	subresources := subresources(r.URL.Path, version >= finelyAuthorized)
	for _, sub := range subresources {
		allowed, err := g.authorize(r.Context(), user, verb, sub)
		if err != nil {
			g.k.os.klog('E', "server.go:394", "Authorization error", "err", err.Error(), "user", user.Username, "verb", verb, "resource", "nodes", "subresource", sub)
			return http.StatusInternalServerError, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)", user.Username, verb, sub)
		}
		if allowed {
			return 0, ""
		}
	}
	if version < finelyAuthorized-1 {
		return http.StatusForbidden, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource=%s)", user.Username, verb, subresources[0])
	}
	return http.StatusForbidden, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)\n", user.Username, verb, subresources)
}

// authenticate returns the owner of a token. As in a kubelet, an error is not remembered, and the API server gives one for each
// token that it refuses.
// https://github.com/kubernetes/apiserver/blob/v0.36.3/plugin/pkg/authenticator/token/webhook/webhook.go (AuthenticateToken) and
// pkg/authentication/token/cache/cached_token_authenticator.go
func (g *gatekeeper) authenticate(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	key := sha256.Sum256([]byte(token))
	if known, ok := g.tokens.Get(key); ok {
		return known.(*authenticationv1.UserInfo), nil
	}
	review := authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}, Spec: authenticationv1.TokenReviewSpec{Token: token},
	}
	var out authenticationv1.TokenReview
	if err := g.ask(ctx, "/apis/authentication.k8s.io/v1/tokenreviews", &review, &out); err != nil {
		return nil, err
	}
	if !out.Status.Authenticated {
		return nil, errors.New(cmp.Or(out.Status.Error, "invalid bearer token"))
	}
	g.tokens.Add(key, &out.Status.User, tokensRemembered)
	return &out.Status.User, nil
}

// ask sends a question to the cluster.
func (g *gatekeeper) ask(ctx context.Context, path string, question, answer runtime.Object) error {
	select {
	case g.reviews <- struct{}{}:
		defer func() { <-g.reviews }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := g.k.client.do(ctx, http.MethodPost, path, nil, question, answer); err != nil {
		return errors.New(g.k.said(err, "Post", path))
	}
	return nil
}

// authorize reports whether a user may do something with a subresource of the node.
func (g *gatekeeper) authorize(ctx context.Context, user *authenticationv1.UserInfo, verb, subresource string) (bool, error) {
	review := authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: g.k.name},
		},
	}
	for k, v := range user.Extra {
		review.Spec.Extra[k] = authorizationv1.ExtraValue(v)
	}
	question, err := json.Marshal(review.Spec)
	if err != nil {
		return false, err
	}
	key := string(question)
	if known, ok := g.permissions.Get(key); ok {
		return known.(bool), nil
	}
	var out authorizationv1.SubjectAccessReview
	if err := g.ask(ctx, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review, &out); err != nil {
		return false, err
	}
	remembered := denialRemembered
	if out.Status.Allowed {
		remembered = permissionRemembered
	}
	g.permissions.Add(key, out.Status.Allowed, remembered)
	return out.Status.Allowed, nil
}

// subresources returns those of the node of which any permits a request.
func subresources(path string, finely bool) []string {
	under := func(root string) bool { return path == root || strings.HasPrefix(path, root+"/") }
	for _, s := range []struct{ root, sub string }{{"/stats", "stats"}, {"/metrics", "metrics"}, {"/logs", "log"}, {"/checkpoint", "checkpoint"}, {"/statusz", "statusz"}, {"/flagz", "configz"}} {
		if under(s.root) {
			return []string{s.sub}
		}
	}
	if finely {
		for _, s := range []struct{ root, sub string }{{"/pods", "pods"}, {"/runningpods", "pods"}, {"/healthz", "healthz"}, {"/configz", "configz"}} {
			if under(s.root) {
				return []string{s.sub, "proxy"}
			}
		}
	}
	return []string{"proxy"}
}
