package eks

import (
	"context"
	"fmt"
	"strings"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ensureInstanceProfile makes the instance profile through which the group's
// instances have the node role.
func (w *groupWork) ensureInstanceProfile() error {
	p := w.s.cfg.InstanceProfiles
	_, err := p.CreateInstanceProfile(w.svc, &awsiam.CreateInstanceProfileInput{InstanceProfileName: &w.g.InstanceProfile})
	if err != nil && !isCode(err, "EntityAlreadyExists") {
		return fmt.Errorf("making the instance profile: %w", err)
	}
	_, err = p.AddRoleToInstanceProfile(w.svc, &awsiam.AddRoleToInstanceProfileInput{
		InstanceProfileName: &w.g.InstanceProfile, RoleName: new(roleName(w.g.Role.ARN)),
	})
	if err != nil && !isCode(err, "LimitExceeded") { // it has its one role
		return fmt.Errorf("adding the node role to the instance profile: %w", err)
	}
	return nil
}

func (w *groupWork) removeInstanceProfile() error {
	p := w.s.cfg.InstanceProfiles
	_, err := p.RemoveRoleFromInstanceProfile(w.svc, &awsiam.RemoveRoleFromInstanceProfileInput{
		InstanceProfileName: &w.g.InstanceProfile, RoleName: new(roleName(w.g.Role.ARN)),
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
	return strings.TrimSuffix(code(err), "Exception") == want
}

// mapNodeRole adds a node role to aws-auth, which it makes if need be.
func (s *Service) mapNodeRole(ctx context.Context, ses *session, role string) error {
	return s.editAuth(ctx, ses, func(data map[string]string) (map[string]string, bool, error) {
		return withRole(data, arnWithoutPath(role))
	})
}

func (s *Service) unmapNodeRole(ctx context.Context, ses *session, role string) error {
	return s.editAuth(ctx, ses, func(data map[string]string) (map[string]string, bool, error) {
		return withoutRole(data, arnWithoutPath(role))
	})
}

// arnWithoutPath is the ARN by which aws-auth knows a role.
func arnWithoutPath(role string) string {
	prefix, _, ok := strings.Cut(role, ":role/")
	if !ok {
		return role
	}
	return prefix + ":role/" + roleName(role)
}

func (s *Service) editAuth(ctx context.Context, ses *session, edit func(map[string]string) (map[string]string, bool, error)) error {
	maps := ses.client.CoreV1().ConfigMaps(authNamespace)
	cm, err := maps.Get(ctx, authName, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if missing {
		cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: authName, Namespace: authNamespace}}
	} else if err != nil {
		return fmt.Errorf("reading aws-auth: %w", err)
	}
	data, changed, err := edit(cm.Data)
	if err != nil {
		return fmt.Errorf("aws-auth: %w", err)
	}
	if !changed {
		return nil
	}
	cm = cm.DeepCopy()
	cm.Data = data
	if missing {
		_, err = maps.Create(ctx, cm, metav1.CreateOptions{})
	} else {
		_, err = maps.Update(ctx, cm, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing aws-auth: %w", err)
	}
	return nil
}
