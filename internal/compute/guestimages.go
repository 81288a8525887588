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

// image decides whether a registry has an image. The registries of the accounts here have what was pushed to them. All
// others are assumed to have every image, unless the user has said otherwise.
func (g *guestCalls) image(_ context.Context, _ machine.Instance, registry, repository, reference string) error {
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
	at := " --region " + m[2]
	name := registry + "/" + repository
	switch {
	case hasImage:
		return nil
	case hasRepository:
		what, ref := "tag", name+":"+reference
		if strings.Contains(reference, ":") {
			what, ref = "digest", name+"@"+reference
		}
		return missing("ImageNotFoundException", ref, fmt.Sprintf("the repository %s has no image with the %s %s", repository, what, reference), []advice.Fix{
			advice.Sketch("push the image, or use one of those that aws ecr describe-images --repository-name "+repository+at+" lists", "docker push "+ref),
		})
	}
	return missing("RepositoryNotFoundException", name, fmt.Sprintf("the repository %s does not exist in the registry of account %s in %s", repository, m[1], m[2]), []advice.Fix{
		advice.Sketch("then push the image", "aws ecr create-repository --repository-name "+repository+at),
	})
}

// ofAWS reports whether a registry is AWS's own: EKS's, or a part of ECR Public.
func ofAWS(registry string) bool {
	m := ecrHost.FindStringSubmatch(registry)
	return m != nil && addons.Registry(m[2]) == registry || registry == "public.ecr.aws"
}

func missing(code, component, text string, fixes []advice.Fix) error {
	return &node.Refusal{
		Err:      errors.New("not found"),
		Decision: node.Decision{By: node.ByRegistry, Code: code, Component: component, Text: text, Fixes: fixes},
	}
}
