package nodegroup

import (
	"testing"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// A throttle of EC2 or IAM is not final: the reconciler retries.
func TestThrottlesAreNoIssues(t *testing.T) {
	for _, code := range []string{"RequestLimitExceeded", "Throttling"} {
		if got := issueOf(awserr.New(code, "Request limit exceeded.")); got != nil {
			t.Errorf("%s becomes the issue %s", code, got.Code)
		}
	}
	if issueOf(awserr.New("InvalidSubnetID.NotFound", "gone")) == nil {
		t.Error("a missing subnet is no issue")
	}
}
