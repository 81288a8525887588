package compute

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

// ecrHost matches a private registry of Amazon ECR.
var ecrHost = regexp.MustCompile(`^([0-9]{12})\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com|on\.aws)$`)

// known reports whether ECR has the registry of an account here. Those of other accounts, such as EKS's for its add-ons,
// are AWS's or of people whom Drydock does not know.
func (g *guestCalls) known(account string) bool { return g.iam != nil && g.iam.HasAccount(account) }

// image decides whether a registry has an image. The registries of the accounts here, private and public, have what was pushed to them. All
// others are assumed to have every image, unless the user has said otherwise.
func (g *guestCalls) image(_ context.Context, _ machine.Instance, registry, repository, reference string) error {
	if registry == publicECR && g.public != nil {
		alias, name, _ := strings.Cut(repository, "/")
		if hasRegistry, hasRepository, hasImage := g.public.Exists(alias, name, reference); hasRegistry {
			return judge(hasRepository, hasImage, registry+"/"+repository, name, reference, "the public registry "+alias, "ecr-public", "us-east-1")
		}
	}
	m := ecrHost.FindStringSubmatch(registry)
	if m == nil || !g.known(m[1]) {
		if !g.strict || ofAWS(registry) {
			return nil
		}
		return missing(node.CauseImagePull, registry, "the registry "+registry+" is not one of Drydock's, which with --images strict is as if it had no images", nil)
	}
	if g.images == nil {
		return nil
	}
	hasRepository, hasImage := g.images.Exists(m[1], m[2], repository, reference)
	return judge(hasRepository, hasImage, registry+"/"+repository, repository, reference, "the registry of account "+m[1]+" in "+m[2], "ecr", m[2])
}

// judge returns what is missing for a pull from a registry here. name is the repository's name in images, service the
// command of the aws CLI.
func judge(hasRepository, hasImage bool, name, repository, reference, registry, service, region string) error {
	at := " --region " + region
	switch {
	case hasImage:
		return nil
	case hasRepository:
		what, ref := "tag", name+":"+reference
		if strings.Contains(reference, ":") {
			what, ref = "digest", name+"@"+reference
		}
		return missing("ImageNotFoundException", ref, fmt.Sprintf("the repository %s has no image with the %s %s", repository, what, reference), []advice.Fix{
			advice.Sketch("push the image, or use one of those that aws "+service+" describe-images --repository-name "+repository+at+" lists", "docker push "+ref),
		})
	}
	return missing("RepositoryNotFoundException", name, fmt.Sprintf("the repository %s does not exist in %s", repository, registry), []advice.Fix{
		advice.Sketch("then push the image", "aws "+service+" create-repository --repository-name "+repository+at),
	})
}

// publicECR is the host of ECR Public. The aliases that Drydock does not know are those of others, which have every
// image.
const publicECR = "public.ecr.aws"

// ofAWS reports whether a registry is AWS's own: EKS's, or a part of ECR Public.
func ofAWS(registry string) bool {
	m := ecrHost.FindStringSubmatch(registry)
	return m != nil && addons.Registry(m[2]) == registry || registry == publicECR
}

func missing(code, component, text string, fixes []advice.Fix) error {
	return &node.Refusal{
		Err:      errors.New("not found"),
		Decision: node.Decision{By: node.ByRegistry, Code: code, Component: component, Text: text, Fixes: fixes},
	}
}
