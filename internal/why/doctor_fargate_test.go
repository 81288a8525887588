package why

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// oneProfile is a cluster with one Fargate profile.
type oneProfile struct {
	Inventory
	EKS
	profile ekstypes.FargateProfile
	block   error
	asked   *corev1.Pod
}

func (o *oneProfile) ListFargateProfiles(context.Context, *awseks.ListFargateProfilesInput) (*awseks.ListFargateProfilesOutput, error) {
	return &awseks.ListFargateProfilesOutput{FargateProfileNames: []string{"fp"}}, nil
}

func (o *oneProfile) DescribeFargateProfile(context.Context, *awseks.DescribeFargateProfileInput) (*awseks.DescribeFargateProfileOutput, error) {
	return &awseks.DescribeFargateProfileOutput{FargateProfile: &o.profile}, nil
}

func (o *oneProfile) FargateLaunch(_ context.Context, _, _, _, _ string, pod *corev1.Pod) (eks.FargateProfileLaunch, error) {
	o.asked = pod
	return eks.FargateProfileLaunch{}, o.block
}

func (o *oneProfile) FargateRole(context.Context, string, string, string, string) (string, bool, error) {
	return "", false, errors.New("its role has no fix here")
}

// doctor asks whether each Fargate profile would launch the next pod that it selects.
func TestDoctorOfFargateProfiles(t *testing.T) {
	const role = "arn:aws:iam::111122223333:role/pods"
	trust := &eks.FargateBlock{Reason: "Failed to assume PodExecutionRole", Cause: eks.FargateBlockedTrust}
	denied := []recording.Gap{{Service: "iam", Operation: "GetRole", Subject: role, Code: "AccessDenied"}}
	for _, tt := range []struct {
		name   string
		status ekstypes.FargateProfileStatus
		block  error
		gaps   []recording.Gap
		want   string // HARM TEXT of the only finding, or empty
	}{
		{"it would", ekstypes.FargateProfileStatusActive, nil, nil, ""},
		{"its role cannot be assumed", ekstypes.FargateProfileStatusActive, trust, nil, "error no new pod would be launched: Failed to assume PodExecutionRole"},
		{"its role was not read", ekstypes.FargateProfileStatusActive, trust, denied, "unknown whether it would launch a pod is unknown: the source did not allow iam:GetRole for " + role},
		{"it is being deleted", ekstypes.FargateProfileStatusDeleting, trust, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &oneProfile{block: tt.block, profile: ekstypes.FargateProfile{
				FargateProfileName: aws.String("fp"), Status: tt.status, PodExecutionRoleArn: aws.String(role),
				Selectors: []ekstypes.FargateProfileSelector{{Namespace: aws.String("team-*"), Labels: map[string]string{"tier": "we?", "app": "shop"}}},
			}}
			x := New(Config{Inventory: o, EKS: o, Gaps: func(string) []recording.Gap { return tt.gaps }})
			d := api.Diagnosis{Account: "111122223333", Region: "eu-west-1", Cluster: "c"}
			if err := x.diagnoseProfiles(t.Context(), &d); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range d.Findings {
				got = append(got, f.Harm+" "+f.Text)
				if f.Harm == api.HarmError && strings.Join(f.Evidence, "") != "it takes pods of namespace team-* with app=shop, tier=we?" {
					t.Errorf("evidence: %q", f.Evidence)
				}
			}
			if strings.Join(got, "\n") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if p := o.asked; p != nil && (p.Namespace != "team-x" || p.Labels["tier"] != "wex" || p.Labels["app"] != "shop") {
				t.Errorf("asked for a pod in %s with %v", p.Namespace, p.Labels)
			}
		})
	}
}

// doctor says which of its checks saw nothing.
func TestDoctorOfWhatWasNotRead(t *testing.T) {
	x := New(Config{Gaps: func(string) []recording.Gap {
		return []recording.Gap{
			{Service: "eks", Operation: "ListAddons", Cluster: "c", Subject: "c", Code: "AccessDeniedException"},
			{Service: recording.Kubernetes, Operation: "List", Cluster: "c", Resource: "pods", Code: "AccessDenied"},
			{Service: recording.Kubernetes, Operation: "List", Cluster: "c", Resource: "secrets", Code: "AccessDenied"},
			{Service: recording.Kubernetes, Operation: "List", Cluster: "c", Resource: "pods", Code: recording.Redacted},
			{Service: "eks", Operation: "ListAddons", Cluster: "d", Subject: "d", Code: "AccessDeniedException"},
			{Service: "kms", Operation: "ListKeys", Code: "AccessDeniedException"},
		}
	}})
	d := api.Diagnosis{Account: "111122223333", Cluster: "c"}
	if err := x.diagnoseGaps(t.Context(), &d); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range d.Findings {
		got = append(got, f.Harm+" "+f.Check+" "+f.Text)
	}
	want := "unknown add-on the source did not allow eks:ListAddons for c\nunknown pod the source did not allow listing pods of cluster c"
	if strings.Join(got, "\n") != want {
		t.Errorf("got %q", got)
	}
}
