package images_test

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/drydock-dev/drydock/internal/catalog/images"
)

func TestWhichEKSImagesExist(t *testing.T) {
	for _, tt := range []struct {
		name          string
		family        images.Family
		version, arch string
		variant       string
		want          string // image name; empty: none
	}{
		{"AL2023 x86", images.AL2023, "1.36", "x86_64", "", "amazon-eks-node-al2023-x86_64-standard-1.36-v20260917"},
		{"AL2023 arm", images.AL2023, "1.29", "arm64", "", "amazon-eks-node-al2023-arm64-standard-1.29-v20260917"},
		{"AL2023 GPU", images.AL2023, "1.34", "x86_64", "nvidia", "amazon-eks-node-al2023-x86_64-nvidia-1.34-v20260917"},
		{"last AL2", images.AL2, "1.32", "x86_64", "", "amazon-eks-node-1.32-v20260917"},
		{"AL2 arm", images.AL2, "1.30", "arm64", "", "amazon-eks-arm64-node-1.30-v20260917"},
		{"no AL2 from 1.33 on", images.AL2, "1.33", "x86_64", "", ""},
		{"Bottlerocket", images.Bottlerocket, "1.33", "arm64", "", "bottlerocket-aws-k8s-1.33-arm64-v1.48.0-5e07c2d4"},
		{"unknown version", images.AL2023, "1.28", "x86_64", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			img, ok := images.EKS("eu-west-1", tt.family, tt.version, tt.arch, tt.variant)
			if ok != (tt.want != "") || img.Name != tt.want {
				t.Errorf("got %q, %v", img.Name, ok)
			}
		})
	}
}

func TestIDsAreStableAndRegional(t *testing.T) {
	a, _ := images.EKS("us-east-1", images.AL2023, "1.36", "x86_64", "")
	b, _ := images.EKS("us-west-2", images.AL2023, "1.36", "x86_64", "")
	if a.ID == b.ID {
		t.Error("two regions share an image ID")
	}
	if !regexp.MustCompile(`^ami-0[0-9a-f]{16}$`).MatchString(a.ID) {
		t.Errorf("ID %q", a.ID)
	}
	if got, ok := images.ByID("us-east-1", a.ID); !ok || got.Name != a.Name {
		t.Errorf("ByID: %v %v", got, ok)
	}
	if _, ok := images.ByID("us-west-2", a.ID); ok {
		t.Error("an image of us-east-1 exists in us-west-2")
	}
	if a.ReleaseVersion != "1.36.1-20260917" || a.KubeletVersion != "1.36.1" {
		t.Errorf("release %s, kubelet %s", a.ReleaseVersion, a.KubeletVersion)
	}
}

func TestParametersNameImages(t *testing.T) {
	for name, image := range map[string]string{
		"/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id": "amazon-eks-node-al2023-x86_64-standard-1.36-v20260917",
		"/aws/service/eks/optimized-ami/1.29/amazon-linux-2/recommended/image_id":                    "amazon-eks-node-1.29-v20260917",
		"/aws/service/eks/optimized-ami/1.31/amazon-linux-2-arm64/recommended/image_id":              "amazon-eks-arm64-node-1.31-v20260917",
		"/aws/service/bottlerocket/aws-k8s-1.35/x86_64/latest/image_id":                              "bottlerocket-aws-k8s-1.35-x86_64-v1.48.0-5e07c2d4",
		"/aws/service/ami-amazon-linux-latest/amzn2-ami-minimal-hvm-x86_64-ebs":                      "amzn2-ami-minimal-hvm-2.0.20260622.0-x86_64-ebs",
		"/aws/service/bottlerocket/aws-k8s-1.35/x86_64/1.46.0/image_id":                              "bottlerocket-aws-k8s-1.35-x86_64-v1.46.0-9c1f2b6a",
		"/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64":                       "al2023-ami-2023.9.20260914.0-kernel-6.1-arm64",
	} {
		img, ok := images.ByName("us-east-1", name)
		if !ok || img.Name != image {
			t.Errorf("%s: %q, want %q", name, img.Name, image)
		}
	}
	p, ok := images.ParameterByName("us-east-1", "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended")
	var doc struct {
		ReleaseVersion string `json:"release_version"`
	}
	if !ok || json.Unmarshal([]byte(p.Value), &doc) != nil || doc.ReleaseVersion != "1.36.1-20260917" {
		t.Errorf("recommended: %+v", p)
	}
	if _, ok := images.ParameterByName("us-east-1", "/aws/service/eks/optimized-ami/1.33/amazon-linux-2/recommended/image_id"); ok {
		t.Error("an AL2 image of 1.33 is published")
	}
}

func TestEveryParameterOfAnImageResolves(t *testing.T) {
	for _, p := range images.Parameters("ap-south-1") {
		if p.DataType != "aws:ec2:image" {
			continue
		}
		if _, ok := images.ByID("ap-south-1", p.Value); !ok {
			t.Errorf("%s names %s, which does not exist", p.Name, p.Value)
		}
	}
}
