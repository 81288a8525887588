package cloudformation

import (
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// taggable lets the Resource Groups Tagging API list stacks. Only an update changes their tags.
func (s *Service) taggable() module.Tagging {
	return module.Tagging{Resources: func(account, region string) []module.Resource {
		return module.Resources(s.cfg.Store, stacks, account, region, func(k store.Key, r *stackRecord) (string, map[string]string) {
			if r.Status == cloudformationtypes.StackStatusDeleteComplete {
				return "", nil
			}
			tags := map[string]string{}
			for _, t := range r.Tags {
				tags[t.Key] = t.Value
			}
			return stackARN(k, r), tags
		})
	}}
}
