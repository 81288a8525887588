package nodegroup

import (
	"fmt"
	"strings"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
)

// ensureInstanceProfile makes the instance profile through which the group's
// instances have the node role.
func (w *work) ensureInstanceProfile() error {
	p := w.s.InstanceProfiles
	_, err := p.CreateInstanceProfile(w.svc, &awsiam.CreateInstanceProfileInput{InstanceProfileName: &w.g.InstanceProfile})
	if err != nil && !isCode(err, "EntityAlreadyExists") {
		return fmt.Errorf("creating the instance profile: %w", err)
	}
	_, err = p.AddRoleToInstanceProfile(w.svc, &awsiam.AddRoleToInstanceProfileInput{
		InstanceProfileName: &w.g.InstanceProfile, RoleName: new(access.RoleName(w.g.Role.ARN)),
	})
	if err != nil && !isCode(err, "LimitExceeded") { // it has its one role
		return fmt.Errorf("adding the node role to the instance profile: %w", err)
	}
	return nil
}

func (w *work) removeInstanceProfile() error {
	p := w.s.InstanceProfiles
	_, err := p.RemoveRoleFromInstanceProfile(w.svc, &awsiam.RemoveRoleFromInstanceProfileInput{
		InstanceProfileName: &w.g.InstanceProfile, RoleName: new(access.RoleName(w.g.Role.ARN)),
	})
	if err != nil && !isCode(err, "NoSuchEntity") {
		return fmt.Errorf("emptying the instance profile: %w", err)
	}
	_, err = p.DeleteInstanceProfile(w.svc, &awsiam.DeleteInstanceProfileInput{InstanceProfileName: &w.g.InstanceProfile})
	if err != nil && !isCode(err, "NoSuchEntity") {
		return fmt.Errorf("removing the instance profile: %w", err)
	}
	return nil
}

// isCode reports whether err has an IAM error code, in either spelling: the
// SDK's types are named …Exception, the wire code is not.
func isCode(err error, want string) bool {
	return strings.TrimSuffix(ekserr.Code(err), "Exception") == want
}
