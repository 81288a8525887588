package controlplane

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

const (
	authenticatePath = "/authenticate"
	authorizePath    = "/authorize"
	mutatePath       = "/mutate"
	maxReview        = 3 << 20
	// mutateFargatePath is separate, because a pod must be matched with Fargate profiles even if its identity cannot
	// be determined.
	mutateFargatePath = "/mutate-fargate"
)

// webhooks is the server for the children's token, authorization and admission webhooks. It only accepts clients with
// a certificate of its own authority, whose name is the ID of the calling plane. The authority lives as long as the
// daemon, because children never live longer.
type webhooks struct {
	ca     authority
	url    string
	server *http.Server
	done   chan struct{}
}

func serveWebhooks(ctx context.Context, cfg Config, hooks Hooks, known func(id string) bool) (*webhooks, error) {
	now := cfg.Clock.Now()
	ca, err := newAuthority("drydock-webhooks", now)
	if err != nil {
		return nil, err
	}
	pair, err := ca.issue(request{commonName: "drydock", hosts: []string{"127.0.0.1"}, validity: caValidity}, now)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair, pair)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+authenticatePath, reviewHandler(known, func(ctx context.Context, id string, r *authnv1.TokenReview) {
		r.Status = authenticate(ctx, hooks, id, r.Spec.Token)
		r.Spec = authnv1.TokenReviewSpec{} // do not repeat the token in the answer
	}))
	mux.Handle("POST "+authorizePath, reviewHandler(known, func(ctx context.Context, id string, r *authzv1.SubjectAccessReview) {
		r.Status = authzv1.SubjectAccessReviewStatus{}
		if hooks.Authorize != nil {
			r.Status.Allowed, r.Status.Denied, r.Status.Reason = hooks.Authorize(ctx, id, &r.Spec)
		}
	}))
	mux.Handle("POST "+mutatePath, reviewHandler(known, func(ctx context.Context, id string, r *admissionv1.AdmissionReview) {
		mutate(ctx, cfg.Log, hooks.MutatePod, id, r)
	}))
	mux.Handle("POST "+mutateFargatePath, reviewHandler(known, func(ctx context.Context, id string, r *admissionv1.AdmissionReview) {
		mutate(ctx, cfg.Log, hooks.MutateFargatePod, id, r)
	}))
	mux.Handle("POST "+launch.CloudPath, reviewHandler(known, func(ctx context.Context, id string, c *Cloud) {
		*c = cloud(ctx, hooks, id)
	}))
	w := &webhooks{ca: ca, url: "https://" + l.Addr().String(), done: make(chan struct{})}
	w.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		TLSConfig: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{cert},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    ca.pool(),
		},
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(w.done)
		_ = w.server.ServeTLS(l, "", "") // close ends it
	}()
	return w, nil
}

func (w *webhooks) close() {
	w.server.Close()
	<-w.done
}

func authenticate(ctx context.Context, hooks Hooks, id, token string) authnv1.TokenReviewStatus {
	user, err := hooks.Authenticate(ctx, id, token)
	if err != nil {
		return authnv1.TokenReviewStatus{Error: err.Error()}
	}
	return authnv1.TokenReviewStatus{Authenticated: true, User: user}
}

func reviewHandler[T any](known func(id string) bool, fn func(ctx context.Context, planeID string, review *T)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.TLS.PeerCertificates[0].Subject.CommonName
		if !known(id) {
			http.Error(w, "no such control plane", http.StatusForbidden)
			return
		}
		var review T
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReview)).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fn(r.Context(), id, &review)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&review) // an error means that the child has disconnected
	}
}
