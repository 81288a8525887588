package instance

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// A metadataDefaultsRecord has an account's defaults for metadata options that a launch leaves out.
// An empty value means no preference.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-IMDS-new-instances.html
type metadataDefaultsRecord struct {
	Tokens   string `json:",omitempty"`
	Endpoint string `json:",omitempty"`
	Tags     string `json:",omitempty"`
	HopLimit int32  `json:",omitempty"`
}

const metadataDefaultsID = "account"

func getMetadataDefaults(r store.Reader, sc resource.Scope) (metadataDefaultsRecord, error) {
	d, err := metadataDefaults.Get(r, sc.Key(metadataDefaultsID))
	return d, store.IgnoreNotFound(err)
}

// apply applies the account's defaults, which take precedence over the image's.
func (d metadataDefaultsRecord) apply(i *record.Instance) {
	i.Tokens, i.MetadataEndpoint, i.MetadataTags = resource.Or(d.Tokens, i.Tokens), resource.Or(d.Endpoint, i.MetadataEndpoint), resource.Or(d.Tags, i.MetadataTags)
	if d.HopLimit != 0 {
		i.HopLimit = d.HopLimit
	}
}

// ModifyInstanceMetadataDefaults changes the account's defaults in a region.
func (s *Service) ModifyInstanceMetadataDefaults(ctx context.Context, in *awsec2.ModifyInstanceMetadataDefaultsInput) (*awsec2.ModifyInstanceMetadataDefaultsOutput, error) {
	sc := resource.ScopeOf(ctx)
	const none = "no-preference"
	preference := func(s string) string {
		if s == none {
			return ""
		}
		return s
	}
	tokens, endpoint, tags := string(in.HttpTokens), string(in.HttpEndpoint), string(in.InstanceMetadataTags)
	hops := in.HttpPutResponseHopLimit
	if aws.ToInt32(hops) == -1 {
		hops = nil
	}
	if err := checkMetadata(preference(tokens), preference(endpoint), "", preference(tags), hops); err != nil {
		return nil, err
	}
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		d, err := getMetadataDefaults(tx, sc)
		if err != nil {
			return err
		}
		d.Tokens, d.Endpoint, d.Tags = preference(resource.Or(tokens, d.Tokens)), preference(resource.Or(endpoint, d.Endpoint)), preference(resource.Or(tags, d.Tags))
		if in.HttpPutResponseHopLimit != nil {
			d.HopLimit = aws.ToInt32(hops)
		}
		return metadataDefaults.Put(tx, sc.Key(metadataDefaultsID), d)
	})
	return &awsec2.ModifyInstanceMetadataDefaultsOutput{Return: aws.Bool(true)}, err
}

// GetInstanceMetadataDefaults returns the account's defaults in a region.
func (s *Service) GetInstanceMetadataDefaults(ctx context.Context, in *awsec2.GetInstanceMetadataDefaultsInput) (*awsec2.GetInstanceMetadataDefaultsOutput, error) {
	sc := resource.ScopeOf(ctx)
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	d, err := getMetadataDefaults(s.Store, sc)
	if err != nil {
		return nil, err
	}
	level := &ec2types.InstanceMetadataDefaultsResponse{
		HttpTokens: ec2types.HttpTokensState(d.Tokens), HttpEndpoint: ec2types.InstanceMetadataEndpointState(d.Endpoint),
		InstanceMetadataTags: ec2types.InstanceMetadataTagsState(d.Tags), ManagedBy: ec2types.ManagedByAccount,
	}
	if d.HopLimit != 0 {
		level.HttpPutResponseHopLimit = aws.Int32(d.HopLimit)
	}
	return &awsec2.GetInstanceMetadataDefaultsOutput{AccountLevel: level}, nil
}

var metadataDefaults = store.NewCollection[metadataDefaultsRecord]("ec2", "metadata-defaults")
