package images

import (
	"encoding/json"
	"time"
)

type builder struct {
	region string
	images []Image
	params map[string]Parameter
}

// image completes img, adds it and returns it.
func (b *builder) image(img Image, date string) Image {
	img.Region = b.region
	img.ID = imageID(b.region, img.Name)
	created, err := time.Parse("20060102", date)
	if err != nil {
		panic("images: bad date " + date) // a constant of this package
	}
	img.Created = created.Add(21 * time.Hour)
	b.images = append(b.images, img)
	return img
}

func (b *builder) param(name, value, dataType string, at time.Time) {
	b.params[name] = Parameter{Name: name, Value: value, DataType: dataType, Modified: at}
}

// eksParams publishes an Amazon Linux image below path, as listed in
// https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html: recommended (a JSON document),
// recommended/image_id and so on.
func (b *builder) eksParams(path string, img Image) {
	b.param(path+"/image_id", img.ID, "aws:ec2:image", img.Created)
	b.param(path+"/image_name", img.Name, "text", img.Created)
	b.param(path+"/release_version", img.ReleaseVersion, "text", img.Created)
	doc, err := json.Marshal(map[string]string{
		"schema_version":  "2",
		"image_id":        img.ID,
		"image_name":      img.Name,
		"release_version": img.ReleaseVersion,
	})
	if err != nil {
		panic("images: " + err.Error()) // a map of strings always encodes
	}
	b.param(path, string(doc), "text", img.Created)
}

// eks adds the EKS-optimised images of one minor and release date.
func (b *builder) eks(minor, patch string, rel release, latest bool) {
	date := rel.date
	const base = "/aws/service/eks/optimized-ami/"
	common := Image{
		OwnerID: OwnerEKS, OwnerAlias: "amazon", KubernetesVersion: minor, KubeletVersion: patch,
		ReleaseVersion: patch + "-" + date,
	}
	publish := func(path string, img Image) {
		b.eksParams(path+"/"+img.Name, img)
		if latest {
			b.eksParams(path+"/recommended", img)
		}
	}

	// AL2: x86_64 "amazon-eks-node-", arm64 "amazon-eks-arm64-node-", GPU
	// "amazon-eks-gpu-node-". Kubernetes 1.32 was the last.
	// https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html
	if minorNumber(minor) <= 32 {
		for _, v := range []struct{ infix, path, arch, variant string }{
			{"", "amazon-linux-2", "x86_64", "standard"},
			{"arm64-", "amazon-linux-2-arm64", "arm64", "standard"},
			{"gpu-", "amazon-linux-2-gpu", "x86_64", "gpu"},
		} {
			img := common
			img.Family, img.Architecture, img.Variant = AL2, v.arch, v.variant
			img.Name = "amazon-eks-" + v.infix + "node-" + minor + "-v" + date
			img.Description = "EKS Kubernetes Worker AMI with AmazonLinux2 image, (k8s: " + patch + ", containerd: 1.7.*)"
			img.RootDevice, img.Devices = "/dev/xvda", []Device{{Name: "/dev/xvda", SizeGiB: 20, Type: "gp2"}}
			publish(base+minor+"/"+v.path, b.image(img, date))
		}
	}
	for _, v := range []struct{ arch, variant string }{
		{"x86_64", "standard"}, {"arm64", "standard"}, {"x86_64", "nvidia"}, {"arm64", "nvidia"}, {"x86_64", "neuron"},
	} {
		img := common
		img.Family, img.Architecture, img.Variant = AL2023, v.arch, v.variant
		img.Name = "amazon-eks-node-al2023-" + v.arch + "-" + v.variant + "-" + minor + "-v" + date
		img.Description = "EKS-optimized Kubernetes node based on Amazon Linux 2023, (k8s: " + patch + ", containerd: 2.1.*)"
		img.RootDevice, img.Devices = "/dev/xvda", []Device{{Name: "/dev/xvda", SizeGiB: 20, Type: "gp3"}}
		publish(base+minor+"/amazon-linux-2023/"+v.arch+"/"+v.variant, b.image(img, date))
	}
	os := rel.bottlerocket + "-" + rel.build
	for _, v := range []struct{ flavour, variant, arch string }{
		{"", "standard", "x86_64"}, {"", "standard", "arm64"}, {"-nvidia", "nvidia", "x86_64"}, {"-nvidia", "nvidia", "arm64"},
	} {
		img := common
		img.OwnerID, img.Family, img.Architecture, img.Variant = OwnerBR, Bottlerocket, v.arch, v.variant
		img.ReleaseVersion = os
		img.Name = "bottlerocket-aws-k8s-" + minor + v.flavour + "-" + v.arch + "-v" + os
		img.Description = img.Name
		img.RootDevice = "/dev/xvda"
		img.Devices = []Device{{Name: "/dev/xvda", SizeGiB: 2, Type: "gp2"}, {Name: "/dev/xvdb", SizeGiB: 20, Type: "gp2"}}
		img = b.image(img, date)
		versions := []string{os, rel.bottlerocket}
		if latest {
			versions = append(versions, "latest")
		}
		for _, version := range versions {
			path := "/aws/service/bottlerocket/aws-k8s-" + minor + v.flavour + "/" + v.arch + "/" + version
			b.param(path+"/image_id", img.ID, "aws:ec2:image", img.Created)
			b.param(path+"/image_version", os, "text", img.Created)
		}
	}
}

// plain adds operating systems that do not join a cluster by themselves.
func (b *builder) plain() {
	const linux = "/aws/service/ami-amazon-linux-latest/"
	for _, arch := range []string{"x86_64", "arm64"} {
		al2 := b.image(Image{
			Name: "amzn2-ami-hvm-2.0.20260622.0-" + arch + "-gp2", Description: "Amazon Linux 2 AMI 2.0.20260622.0 " + arch + " HVM gp2",
			OwnerID: OwnerAmazon, OwnerAlias: "amazon", Architecture: arch, Family: AL2, Variant: "standard",
			RootDevice: "/dev/xvda", Devices: []Device{{Name: "/dev/xvda", SizeGiB: 8, Type: "gp2"}},
		}, "20260624")
		b.param(linux+"amzn2-ami-hvm-"+arch+"-gp2", al2.ID, "aws:ec2:image", al2.Created)
		b.param(linux+"amzn2-ami-kernel-5.10-hvm-"+arch+"-gp2", al2.ID, "aws:ec2:image", al2.Created)

		// The acceptance tests of Terraform's AWS provider look for this one.
		al2minimal := b.image(Image{
			Name: "amzn2-ami-minimal-hvm-2.0.20260622.0-" + arch + "-ebs", Description: "Amazon Linux 2 AMI 2.0.20260622.0 " + arch + " Minimal HVM ebs",
			OwnerID: OwnerAmazon, OwnerAlias: "amazon", Architecture: arch, Family: AL2, Variant: "minimal",
			RootDevice: "/dev/xvda", Devices: []Device{{Name: "/dev/xvda", SizeGiB: 2, Type: "standard"}},
		}, "20260624")
		b.param(linux+"amzn2-ami-minimal-hvm-"+arch+"-ebs", al2minimal.ID, "aws:ec2:image", al2minimal.Created)

		al2023 := b.image(Image{
			Name: "al2023-ami-2023.9.20260914.0-kernel-6.1-" + arch, Description: "Amazon Linux 2023 AMI 2023.9.20260914.0 " + arch + " HVM kernel-6.1",
			OwnerID: OwnerAmazon, OwnerAlias: "amazon", Architecture: arch, Family: AL2023, Variant: "standard",
			RootDevice: "/dev/xvda", Devices: []Device{{Name: "/dev/xvda", SizeGiB: 8, Type: "gp3"}},
		}, "20260916")
		b.param(linux+"al2023-ami-kernel-6.1-"+arch, al2023.ID, "aws:ec2:image", al2023.Created)
		b.param(linux+"al2023-ami-kernel-default-"+arch, al2023.ID, "aws:ec2:image", al2023.Created)

		minimal := b.image(Image{
			Name: "al2023-ami-minimal-2023.9.20260914.0-kernel-6.1-" + arch, Description: "Amazon Linux 2023 AMI 2023.9.20260914.0 " + arch + " Minimal HVM kernel-6.1",
			OwnerID: OwnerAmazon, OwnerAlias: "amazon", Architecture: arch, Family: AL2023, Variant: "minimal",
			RootDevice: "/dev/xvda", Devices: []Device{{Name: "/dev/xvda", SizeGiB: 2, Type: "gp3"}},
		}, "20260916")
		b.param(linux+"al2023-ami-minimal-kernel-6.1-"+arch, minimal.ID, "aws:ec2:image", minimal.Created)
		b.param(linux+"al2023-ami-minimal-kernel-default-"+arch, minimal.ID, "aws:ec2:image", minimal.Created)

		deb := map[string]string{"x86_64": "amd64", "arm64": "arm64"}[arch]
		for release, codename := range map[string]string{"22.04": "jammy", "24.04": "noble"} {
			disk := map[string]string{"22.04": "hvm-ssd", "24.04": "hvm-ssd-gp3"}[release]
			ubuntu := b.image(Image{
				Name:        "ubuntu/images/" + disk + "/ubuntu-" + codename + "-" + release + "-" + deb + "-server-20260910",
				Description: "Canonical, Ubuntu, " + release + ", " + deb + " " + codename + " image",
				OwnerID:     OwnerUbuntu, OwnerAlias: "amazon", Architecture: arch, Family: Ubuntu, Variant: "standard",
				RootDevice: "/dev/sda1", Devices: []Device{{Name: "/dev/sda1", SizeGiB: 8, Type: "gp3"}},
			}, "20260911")
			ebs := map[string]string{"22.04": "ebs-gp2", "24.04": "ebs-gp3"}[release]
			b.param("/aws/service/canonical/ubuntu/server/"+release+"/stable/current/"+deb+"/hvm/"+ebs+"/ami-id", ubuntu.ID, "aws:ec2:image", ubuntu.Created)
		}
	}
}
