// Package source reads an AWS account with a user's credentials and makes a recording.Recording of it. It calls only
// the operations that package twin lists: every client refuses all others before anything is sent.
//
// It runs in the user's own process. Credentials stay there: no recording contains them.
package source

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/smithy-go/middleware"
	"golang.org/x/time/rate"

	"github.com/drydock-dev/drydock/internal/twin"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// A RefusedError means that the program tried to call an operation that does not read.
type RefusedError struct{ Service, Operation string }

func (e *RefusedError) Error() string {
	return recording.Action(e.Service, e.Operation) + " is not in the list of read operations; nothing was sent"
}

// defaultRate is the number of calls per second. Other programs of the account need the rest of its limits.
const defaultRate = 10

// maxAttempts is how often a throttled call is tried. With the SDK's back-off of up to 20 s, this takes minutes.
const maxAttempts = 12

// readOnly returns a configuration whose clients call only listed operations, at a bounded rate, and read bounded
// responses. The credential chain of cfg keeps its own clients.
func readOnly(cfg aws.Config, limit *rate.Limiter) aws.Config {
	cfg = cfg.Copy()
	cfg.APIOptions = append(cfg.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("DrydockReadOnly",
			func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				service, operation := serviceName(awsmiddleware.GetServiceID(ctx)), awsmiddleware.GetOperationName(ctx)
				if !twin.Allowed(service, operation) {
					return middleware.InitializeOutput{}, middleware.Metadata{}, &RefusedError{service, operation}
				}
				if err := limit.Wait(ctx); err != nil {
					return middleware.InitializeOutput{}, middleware.Metadata{}, err
				}
				return next.HandleInitialize(ctx, in)
			}), middleware.Before)
	})
	cfg.Retryer = func() aws.Retryer {
		return retry.NewAdaptiveMode(func(o *retry.AdaptiveModeOptions) {
			o.StandardOptions = append(o.StandardOptions, func(o *retry.StandardOptions) { o.MaxAttempts = maxAttempts })
		})
	}
	client := cfg.HTTPClient
	if client == nil {
		client = awshttp.NewBuildableClient().WithTimeout(2 * time.Minute)
	}
	cfg.HTTPClient = bounded{client}
	return cfg
}

// serviceName returns what recordings call the service with an SDK identifier: "Auto Scaling" is autoscaling.
func serviceName(sdkID string) string {
	switch sdkID {
	case awselb.ServiceID:
		return recording.ELB
	case awselbv2.ServiceID:
		return recording.ELBv2
	}
	return strings.ToLower(strings.ReplaceAll(sdkID, " ", ""))
}

// bounded is an HTTP client whose responses end with an error after recording.MaxPageBytes.
type bounded struct{ client aws.HTTPClient }

// Do sends a request.
func (b bounded) Do(req *http.Request) (*http.Response, error) {
	resp, err := b.client.Do(req)
	if err == nil {
		resp.Body = &boundedBody{resp.Body, recording.MaxPageBytes}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read reads until the limit.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("%w: a response has more than %d MiB", recording.ErrTooLarge, recording.MaxPageBytes>>20)
	}
	return n, err
}
