package source

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"
	awsservicequotas "github.com/aws/aws-sdk-go-v2/service/servicequotas"
	quotatypes "github.com/aws/aws-sdk-go-v2/service/servicequotas/types"
	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/catalog/quotas"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

func ofKMS[In, Out any](name string, call func(context.Context, *In, ...func(*awskms.Options)) (*Out, error)) operation[In, Out, awskms.Options] {
	return operation[In, Out, awskms.Options]{service: "kms", name: name, call: call}
}

// readKeys reads the keys with their policies and grants. What they encrypt is never read.
func (r *reader) readKeys(ctx context.Context) error {
	lists, err := ask(ctx, r, ofKMS("ListKeys", r.kms.ListKeys), &awskms.ListKeysInput{}, "")
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	g.Go(func() error {
		return describe(ctx, r, ofKMS("ListAliases", r.kms.ListAliases), &awskms.ListAliasesInput{}, "")
	})
	for _, list := range lists {
		for _, k := range list.Keys {
			id := aws.ToString(k.KeyId)
			g.Go(func() error {
				found, err := ask(ctx, r, ofKMS("DescribeKey", r.kms.DescribeKey), &awskms.DescribeKeyInput{KeyId: &id}, id)
				if err != nil || len(found) == 0 || found[0].KeyMetadata == nil || found[0].KeyMetadata.KeyState == kmstypes.KeyStatePendingDeletion {
					return err
				}
				if err := describe(ctx, r, ofKMS("GetKeyPolicy", r.kms.GetKeyPolicy), &awskms.GetKeyPolicyInput{KeyId: &id, PolicyName: aws.String("default")}, id); err != nil {
					return err
				}
				return describe(ctx, r, ofKMS("ListGrants", r.kms.ListGrants), &awskms.ListGrantsInput{KeyId: &id}, id)
			})
		}
	}
	return g.Wait()
}

func ofECR[In, Out any](name string, call func(context.Context, *In, ...func(*awsecr.Options)) (*Out, error)) operation[In, Out, awsecr.Options] {
	return operation[In, Out, awsecr.Options]{service: "ecr", name: name, call: call}
}

// readRepositories reads the repositories with their policies.
func (r *reader) readRepositories(ctx context.Context) error {
	lists, err := ask(ctx, r, ofECR("DescribeRepositories", r.ecr.DescribeRepositories), &awsecr.DescribeRepositoriesInput{}, "")
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, list := range lists {
		for _, repo := range list.Repositories {
			g.Go(func() error {
				return describe(ctx, r, ofECR("GetRepositoryPolicy", r.ecr.GetRepositoryPolicy), &awsecr.GetRepositoryPolicyInput{RepositoryName: repo.RepositoryName}, aws.ToString(repo.RepositoryName))
			})
		}
	}
	return g.Wait()
}

// readQuotas reads the quotas of EC2 and EKS.
func (r *reader) readQuotas(ctx context.Context) error {
	list := operation[awsservicequotas.ListServiceQuotasInput, awsservicequotas.ListServiceQuotasOutput, awsservicequotas.Options]{service: "servicequotas", name: "ListServiceQuotas", call: r.quotas.ListServiceQuotas}
	// Other quotas, and what else is said of these, would always differ from what a twin answers.
	list.trim = func(pages []*awsservicequotas.ListServiceQuotasOutput) *recording.Gap {
		for _, p := range pages {
			p.Quotas = slices.DeleteFunc(p.Quotas, func(q quotatypes.ServiceQuota) bool {
				return !quotas.InTwins(aws.ToString(q.ServiceCode), aws.ToString(q.QuotaCode))
			})
			for i, q := range p.Quotas {
				p.Quotas[i] = quotatypes.ServiceQuota{ServiceCode: q.ServiceCode, QuotaCode: q.QuotaCode, Value: q.Value}
			}
		}
		return nil
	}
	for _, service := range []string{"ec2", "eks"} {
		if err := describe(ctx, r, list, &awsservicequotas.ListServiceQuotasInput{ServiceCode: &service}, service); err != nil {
			return err
		}
	}
	return nil
}

func ofRoute53[In, Out any](name string, call func(context.Context, *In, ...func(*awsroute53.Options)) (*Out, error)) operation[In, Out, awsroute53.Options] {
	return operation[In, Out, awsroute53.Options]{service: "route53", name: name, call: call}
}

// readZones reads the private zones with their record sets.
func (r *reader) readZones(ctx context.Context) error {
	lists, err := ask(ctx, r, ofRoute53("ListHostedZones", r.route53.ListHostedZones), &awsroute53.ListHostedZonesInput{}, "")
	if err != nil {
		return err
	}
	sets := ofRoute53("ListResourceRecordSets", r.route53.ListResourceRecordSets)
	sets.turn = func(in *awsroute53.ListResourceRecordSetsInput, out *awsroute53.ListResourceRecordSetsOutput) bool {
		in.StartRecordName, in.StartRecordType, in.StartRecordIdentifier = out.NextRecordName, out.NextRecordType, out.NextRecordIdentifier
		return out.IsTruncated
	}
	for _, list := range lists {
		for _, z := range list.HostedZones {
			if z.Config == nil || !z.Config.PrivateZone {
				continue
			}
			id := strings.TrimPrefix(aws.ToString(z.Id), "/hostedzone/")
			if err := describe(ctx, r, ofRoute53("GetHostedZone", r.route53.GetHostedZone), &awsroute53.GetHostedZoneInput{Id: &id}, aws.ToString(z.Name)); err != nil {
				return err
			}
			if err := describe(ctx, r, sets, &awsroute53.ListResourceRecordSetsInput{HostedZoneId: &id}, aws.ToString(z.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// readZonesOf reads which zones answer in a VPC, whoever owns them. Of those of others, the records cannot be read.
func (r *reader) readZonesOf(ctx context.Context, vpc string) error {
	return describe(ctx, r, ofRoute53("ListHostedZonesByVPC", r.route53.ListHostedZonesByVPC), &awsroute53.ListHostedZonesByVPCInput{VPCId: &vpc, VPCRegion: route53types.VPCRegion(r.source.Region)}, vpc)
}
