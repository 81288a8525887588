// Package podidentityagent implements the EKS Pod Identity Agent of a node. It runs in the container of the add-on
// (internal/node/containers/programs), or in the daemon for programs of pods on simulated nodes.
package podidentityagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/ids"
)

// Credentials are what a pod gets. Its names are those of the answer.
type Credentials struct {
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey string
	Token           string
	AccountID       string `json:"AccountId"`
	Expiration      time.Time
}

// Handler is what the agent answers below http://169.254.170.23: GET /v1/credentials with the pod's token as Authorization,
// and nothing before it. call calls EKS Auth with the token, as the agent's node.
// https://github.com/aws/eks-pod-identity-agent
func Handler(call func(ctx context.Context, token string) (Credentials, error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/credentials", func(w http.ResponseWriter, r *http.Request) {
		out, err := call(r.Context(), r.Header.Get("Authorization"))
		if err != nil {
			refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // fails only if the client is gone
	})
	return mux
}

// An UnsentError is the reason why the agent could not call EKS Auth, in its SDK's words.
type UnsentError struct{ Err error }

func (e *UnsentError) Error() string { return e.Err.Error() }

// Unwrap returns the SDK's error.
func (e *UnsentError) Unwrap() error { return e.Err }

// refuse responds as the agent does: in plain text, with EKS Auth's status, or with 500 if there
// was no response.
// https://github.com/boto/botocore/issues/3117
// https://github.com/aws/eks-pod-identity-agent/blob/main/pkg/errors/errors.go
func refuse(w http.ResponseWriter, err error) {
	var e smithy.APIError
	var unsent *UnsentError
	if errors.As(err, &unsent) {
		http.Error(w, unsent.Error(), http.StatusInternalServerError)
		return
	}
	if !errors.As(err, &e) {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	status := http.StatusBadRequest
	if e.ErrorCode() == "ResourceNotFoundException" {
		status = http.StatusNotFound
	}
	http.Error(w, fmt.Sprintf("[%s]: (%s): %s, fault: client", ids.UUID(), e.ErrorCode(), e.ErrorMessage()), status)
}
