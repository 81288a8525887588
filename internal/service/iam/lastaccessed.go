package iam

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// accessReports are the reports of when principals last called services, by job ID.
var accessReports = store.NewCollection[accessReport]("iam", "access-report")

// reportsKept is how long a report can be read.
// https://docs.aws.amazon.com/IAM/latest/APIReference/API_GenerateServiceLastAccessedDetails.html
const reportsKept = 7 * 24 * time.Hour

// An accessReport lists the services that the policies of an entity allow.
type accessReport struct {
	Created  time.Time
	Services []serviceAccess
}

// A serviceAccess has the principals that may call a service, sorted by the time of their last call, latest first.
type serviceAccess struct {
	Namespace string
	Entities  []entityAccess
}

type entityAccess struct {
	ARN, ID, Name, Path string
	Type                iamtypes.PolicyOwnerEntityType
	Last                time.Time // zero if it has not called the service
	Region              string
}

// serviceNames are the names of services in reports.
// https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
var serviceNames = map[string]string{
	"acm": "AWS Certificate Manager", "arc-zonal-shift": "Amazon Application Recovery Controller - Zonal Shift", "autoscaling": "Amazon EC2 Auto Scaling",
	"cloudformation": "AWS CloudFormation", "cloudtrail": "AWS CloudTrail", "ec2": "Amazon EC2", "ec2-instance-connect": "Amazon EC2 Instance Connect",
	"ec2messages": "Amazon Message Delivery Service", "ecr": "Amazon Elastic Container Registry", "ecr-public": "Amazon Elastic Container Registry Public",
	"eks": "Amazon Elastic Kubernetes Service", "eks-auth": "Amazon EKS Auth", "elasticloadbalancing": "AWS Elastic Load Balancing", "events": "Amazon EventBridge",
	"iam": "AWS Identity and Access Management", "kms": "AWS Key Management Service", "logs": "Amazon CloudWatch Logs", "organizations": "AWS Organizations",
	"pricing": "AWS Price List", "route53": "Amazon Route 53", "s3": "Amazon S3", "secretsmanager": "AWS Secrets Manager", "servicequotas": "AWS Service Quotas",
	"sns": "Amazon SNS", "sqs": "Amazon SQS", "ssm": "AWS Systems Manager", "ssmmessages": "Amazon Session Manager Message Gateway Service",
	"sts": "AWS Security Token Service", "tag": "Amazon Resource Group Tagging API",
}

// accessKeyFor is the key under which a principal's last call of a service is recorded.
func accessKeyFor(account string, kind ownerKind, name, service string) store.Key {
	return store.Key{Account: account, ID: "service/" + kind.word + "/" + strings.ToLower(name) + "/" + service}
}

// GenerateServiceLastAccessedDetails writes a report of the services that the policies of a user, group, role or policy allow, and of
// when they were last called. The report is complete at once. Unlike on AWS, it has only services that Drydock knows or that the
// policies name.
func (s *Service) GenerateServiceLastAccessedDetails(ctx context.Context, in *awsiam.GenerateServiceLastAccessedDetailsInput) (*awsiam.GenerateServiceLastAccessedDetailsOutput, error) {
	if in.Granularity == iamtypes.AccessAdvisorUsageGranularityTypeActionLevel {
		return nil, awserr.NotImplemented("reports of last accessed actions (ACTION_LEVEL)")
	}
	acct := awsapi.CallFrom(ctx).Account
	allowed, entities, err := s.accessOf(acct, *in.Arn)
	if err != nil {
		return nil, err
	}
	report := accessReport{Created: s.now()}
	for _, ns := range allowedServices(allowed) {
		of := serviceAccess{Namespace: ns}
		for _, e := range entities {
			kind := ofRole
			if e.Type == iamtypes.PolicyOwnerEntityTypeUser {
				kind = ofUser
			}
			if u, ok := s.lastUse(accessKeyFor(acct, kind, e.Name, ns), e.ID); ok {
				e.Last, e.Region = u.Time, u.Region
			}
			of.Entities = append(of.Entities, e)
		}
		slices.SortStableFunc(of.Entities, func(a, b entityAccess) int { return b.Last.Compare(a.Last) })
		report.Services = append(report.Services, of)
	}
	id := ids.UUID()
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		for _, old := range accessReports.All(tx, within(acct)) {
			if s.now().Sub(old.Value.Created) >= reportsKept {
				accessReports.Delete(tx, old.Key)
			}
		}
		return accessReports.Put(tx, store.Key{Account: acct, ID: id}, report)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.GenerateServiceLastAccessedDetailsOutput{JobId: &id}, nil
}

// accessOf returns the policies of an entity or a managed policy, and the users and roles that have them.
func (s *Service) accessOf(account, entityARN string) ([]policy.Source, []entityAccess, error) {
	var list []entityAccess
	add := func(k ownerKind, id *identity, arnOf string) {
		e := entityAccess{ARN: arnOf, ID: id.ID, Name: id.Name, Path: id.Path, Type: iamtypes.PolicyOwnerEntityTypeRole}
		if k == ofUser {
			e.Type = iamtypes.PolicyOwnerEntityTypeUser
		}
		list = append(list, e)
	}
	if strings.Contains(entityARN, ":policy/") {
		if err := checkManaged(s.store, account, entityARN, noSuchPolicy); err != nil {
			return nil, nil, err
		}
		for _, r := range roles.All(s.store, within(account)) {
			if slices.Contains(r.Value.Attached, entityARN) {
				add(ofRole, &r.Value.identity, r.Value.arn(account))
			}
		}
		for _, u := range users.All(s.store, within(account)) {
			has := slices.Contains(u.Value.Attached, entityARN)
			for _, name := range u.Value.Groups {
				g, err := groups.Get(s.store, nameKey(account, name))
				has = has || err == nil && slices.Contains(g.Attached, entityARN)
			}
			if has {
				add(ofUser, &u.Value.identity, u.Value.arn(account))
			}
		}
		return []policy.Source{s.managed(account, entityARN)}, list, nil
	}
	e, err := s.entity(account, entityARN)
	if err != nil {
		return nil, nil, err
	}
	_, _, name, _ := arnName(entityARN, strings.Split(entityARN[strings.LastIndexByte(entityARN, ':')+1:], "/")[0])
	switch {
	case strings.Contains(entityARN, ":user/"):
		u, err := users.Get(s.store, nameKey(account, name))
		if err != nil {
			return nil, nil, store.NotFoundAs(err, noSuchUser(name))
		}
		add(ofUser, &u.identity, u.arn(account))
	case strings.Contains(entityARN, ":role/"):
		r, err := roles.Get(s.store, nameKey(account, name))
		if err != nil {
			return nil, nil, store.NotFoundAs(err, noSuchRole(name))
		}
		add(ofRole, &r.identity, r.arn(account))
	default:
		for _, u := range groupMembers(s.store, account, name) {
			add(ofUser, &u.Value.identity, u.Value.arn(account))
		}
	}
	return e.policies.Identity, list, nil
}

// allowedServices returns the namespaces of the services of which the policies allow any action: those that Drydock knows, and those
// that the policies name.
func allowedServices(policies []policy.Source) []string {
	known := authz.Prefixes()
	for _, p := range policies {
		for _, st := range p.Document.Statements {
			for _, action := range st.Actions {
				if ns, _, _ := strings.Cut(strings.ToLower(action), ":"); !st.Deny && !strings.ContainsAny(ns, "*?") {
					known = append(known, ns)
				}
			}
		}
	}
	slices.Sort(known)
	return slices.DeleteFunc(slices.Compact(known), func(ns string) bool {
		return !slices.ContainsFunc(policies, func(p policy.Source) bool { return allowsService(p.Document, ns) })
	})
}

// accessReport returns the report of a job.
func (s *Service) accessReport(ctx context.Context, job string) (accessReport, error) {
	r, err := accessReports.Get(s.store, store.Key{Account: awsapi.CallFrom(ctx).Account, ID: job})
	if err == nil && s.now().Sub(r.Created) >= reportsKept {
		err = store.ErrNotFound
	}
	return r, store.NotFoundAs(err, &iamtypes.NoSuchEntityException{Message: aws.String(fmt.Sprintf("The job id %s does not exist.", job))}) // our own text
}

// GetServiceLastAccessedDetails returns a report: for each service, which principal called it last.
func (s *Service) GetServiceLastAccessedDetails(ctx context.Context, in *awsiam.GetServiceLastAccessedDetailsInput) (*awsiam.GetServiceLastAccessedDetailsOutput, error) {
	r, err := s.accessReport(ctx, *in.JobId)
	if err != nil {
		return nil, err
	}
	p, err := paginate(r.Services, func(a serviceAccess) string { return a.Namespace }, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	out := &awsiam.GetServiceLastAccessedDetailsOutput{
		JobStatus: iamtypes.JobStatusTypeCompleted, JobType: iamtypes.AccessAdvisorUsageGranularityTypeServiceLevel, JobCreationDate: &r.Created, JobCompletionDate: &r.Created,
		ServicesLastAccessed: []iamtypes.ServiceLastAccessed{}, IsTruncated: p.truncated, Marker: p.marker,
	}
	for _, a := range p.items {
		one := iamtypes.ServiceLastAccessed{ServiceNamespace: aws.String(a.Namespace), ServiceName: aws.String(serviceName(a.Namespace)), TotalAuthenticatedEntities: aws.Int32(0)}
		for i, e := range a.Entities {
			if e.Last.IsZero() {
				break
			}
			if *one.TotalAuthenticatedEntities++; i == 0 {
				one.LastAuthenticated, one.LastAuthenticatedEntity, one.LastAuthenticatedRegion = &e.Last, &e.ARN, &e.Region
			}
		}
		out.ServicesLastAccessed = append(out.ServicesLastAccessed, one)
	}
	return out, nil
}

func serviceName(namespace string) string {
	if name, ok := serviceNames[namespace]; ok {
		return name
	}
	return namespace
}

// GetServiceLastAccessedDetailsWithEntities returns, of one service in a report, when each principal called it last.
func (s *Service) GetServiceLastAccessedDetailsWithEntities(ctx context.Context, in *awsiam.GetServiceLastAccessedDetailsWithEntitiesInput) (*awsiam.GetServiceLastAccessedDetailsWithEntitiesOutput, error) {
	r, err := s.accessReport(ctx, *in.JobId)
	if err != nil {
		return nil, err
	}
	var entities []entityAccess
	for _, a := range r.Services {
		if strings.EqualFold(a.Namespace, *in.ServiceNamespace) {
			entities = slices.Clone(a.Entities)
		}
	}
	slices.SortFunc(entities, func(a, b entityAccess) int { return strings.Compare(a.ARN, b.ARN) })
	p, err := paginate(entities, func(e entityAccess) string { return e.ARN }, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	out := &awsiam.GetServiceLastAccessedDetailsWithEntitiesOutput{
		JobStatus: iamtypes.JobStatusTypeCompleted, JobCreationDate: &r.Created, JobCompletionDate: &r.Created,
		EntityDetailsList: []iamtypes.EntityDetails{}, IsTruncated: p.truncated, Marker: p.marker,
	}
	for _, e := range p.items {
		d := iamtypes.EntityDetails{EntityInfo: &iamtypes.EntityInfo{Arn: aws.String(e.ARN), Id: aws.String(e.ID), Name: aws.String(e.Name), Path: aws.String(e.Path), Type: e.Type}}
		if !e.Last.IsZero() {
			d.LastAuthenticated = &e.Last
		}
		out.EntityDetailsList = append(out.EntityDetailsList, d)
	}
	return out, nil
}

// SetSecurityTokenServicePreferences sets the version of tokens from STS's global endpoint. Tokens of version 1 are valid only in regions
// that are enabled by default. All regions are, here.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_temp_enable-regions.html
func (s *Service) SetSecurityTokenServicePreferences(ctx context.Context, in *awsiam.SetSecurityTokenServicePreferencesInput) (*awsiam.SetSecurityTokenServicePreferencesOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	if err := s.EnsureAccount(ctx, acct); err != nil {
		return nil, err
	}
	return &awsiam.SetSecurityTokenServicePreferencesOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		return accounts.Update(tx, store.Key{Account: acct, ID: accountID}, func(a *account) error {
			a.TokensV2 = in.GlobalEndpointTokenVersion == iamtypes.GlobalEndpointTokenVersionV2Token
			return nil
		})
	})
}
