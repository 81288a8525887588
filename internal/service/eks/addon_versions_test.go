package eks_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
)

func TestDescribeAddonVersionsInFull(t *testing.T) {
	w := newWorld(t)
	out, err := w.client.DescribeAddonVersions(t.Context(), &awseks.DescribeAddonVersionsInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range out.Addons {
		defaults := map[string]string{}
		for _, v := range a.AddonVersions {
			if !slices.Equal(v.Architecture, []string{"amd64", "arm64"}) || !slices.Contains(v.ComputeTypes, "ec2") || v.RequiresConfiguration {
				t.Errorf("%s %s: %s", *a.AddonName, *v.AddonVersion, asJSON(v))
			}
			if want := *a.AddonName == "vpc-cni" || *a.AddonName == "aws-ebs-csi-driver"; v.RequiresIamPermissions != want {
				t.Errorf("%s %s requires IAM permissions: %t", *a.AddonName, *v.AddonVersion, v.RequiresIamPermissions)
			}
			for _, c := range v.Compatibilities {
				if !slices.Equal(c.PlatformVersions, []string{"*"}) {
					t.Errorf("%s %s runs on %v", *a.AddonName, *v.AddonVersion, c.PlatformVersions)
				}
				if old := defaults[*c.ClusterVersion]; c.DefaultVersion && old != "" {
					t.Errorf("%s has the defaults %s and %s", *a.AddonName, old, *v.AddonVersion)
				} else if c.DefaultVersion {
					defaults[*c.ClusterVersion] = *v.AddonVersion
				}
			}
			// Every version has a schema.
			c, err := w.client.DescribeAddonConfiguration(t.Context(), &awseks.DescribeAddonConfigurationInput{AddonName: a.AddonName, AddonVersion: v.AddonVersion})
			if err != nil || !strings.HasPrefix(*c.ConfigurationSchema, `{"$schema":"http://json-schema.org/draft-06/schema#"`) || (len(c.PodIdentityConfiguration) > 0) != v.RequiresIamPermissions {
				t.Errorf("%s %s is configured by %s, %v", *a.AddonName, *v.AddonVersion, asJSON(c), err)
			}
		}
		if len(defaults) == 0 || *a.DefaultNamespace != "kube-system" {
			t.Errorf("%s has the defaults %v, in %s", *a.AddonName, defaults, *a.DefaultNamespace)
		}
	}

	var names []string
	pages := awseks.NewDescribeAddonVersionsPaginator(w.client, &awseks.DescribeAddonVersionsInput{KubernetesVersion: aws.String("1.36"), MaxResults: aws.Int32(3)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(page.Addons); n == 0 || n > 3 {
			t.Errorf("a page has %d", n)
		}
		for _, a := range page.Addons {
			names = append(names, *a.AddonName)
			for _, v := range a.AddonVersions {
				if len(v.Compatibilities) != 1 || *v.Compatibilities[0].ClusterVersion != "1.36" {
					t.Errorf("%s %s is for %s", *a.AddonName, *v.AddonVersion, asJSON(v.Compatibilities))
				}
			}
		}
	}
	if len(names) != len(out.Addons) || !slices.IsSorted(names) {
		t.Errorf("in pages: %v", names)
	}
}
