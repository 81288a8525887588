package eksauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/ids"
)

// Agent is what the EKS Pod Identity Agent of a cluster's nodes answers below
// http://169.254.170.23: GET /v1/credentials with the pod's token as Authorization,
// and nothing before it. call calls EKS Auth with the token, as the agent's node.
// https://github.com/aws/eks-pod-identity-agent
func Agent(call func(ctx context.Context, token string) (*AssumeRoleForPodIdentityOutput, error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/credentials", func(w http.ResponseWriter, r *http.Request) {
		out, err := call(r.Context(), r.Header.Get("Authorization"))
		if err != nil {
			refuse(w, err)
			return
		}
		c := out.Credentials
		user, _ := arn.Parse(*out.AssumedRoleUser.Arn) // STS's own
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(struct { // fails only if the client is gone
			AccessKeyID     string `json:"AccessKeyId"`
			SecretAccessKey string
			Token           string
			AccountID       string `json:"AccountId"`
			Expiration      time.Time
		}{*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken, user.Account, *c.Expiration})
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
