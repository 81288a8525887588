package kms

import (
	"context"
	"slices"
	"strings"

	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// managedAliases are the predefined aliases of AWS managed keys, one per service.
// https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html#aws-managed-key
var managedAliases = []string{
	"alias/aws/acm", "alias/aws/backup", "alias/aws/dynamodb", "alias/aws/ebs", "alias/aws/elasticfilesystem", "alias/aws/es", "alias/aws/glue",
	"alias/aws/kinesis", "alias/aws/kinesisvideo", "alias/aws/lambda", "alias/aws/rds", "alias/aws/redshift", "alias/aws/s3",
	"alias/aws/secretsmanager", "alias/aws/sns", "alias/aws/sqs", "alias/aws/ssm", "alias/aws/xray",
}

// managedService returns the service of a predefined alias, as in kms:ViaService without the
// region: ec2 for EBS.
func managedService(alias string) string {
	service := strings.TrimPrefix(alias, reservedPrefix)
	if service == "ebs" {
		return "ec2"
	}
	return service
}

// ensureManaged creates the AWS managed key that name refers to, if it does and the key does not
// exist yet.
func (s *Service) ensureManaged(ctx context.Context, name *string) error {
	sc := scopeOf(ctx)
	if name == nil || !strings.Contains(*name, reservedPrefix) {
		return nil
	}
	k, err := parseRef(sc, *name)
	if err != nil || k.Account != sc.Account || !isManaged(k.alias) {
		return err
	}
	if _, err := aliases.Get(s.store, sc.Key(k.alias)); err == nil {
		return nil
	}
	def := keySpecs[kmstypes.KeySpecSymmetricDefault]
	rec, err := newKey(sc, def, kmstypes.KeySpecSymmetricDefault, kmstypes.KeyUsageTypeEncryptDecrypt)
	if err != nil {
		return err
	}
	now := s.now()
	rec.Created, rec.Materials[0].Since = now, now
	rec.Manager, rec.Policy = kmstypes.KeyManagerTypeAws, managedPolicy(sc, k.alias)
	rec.Description = "Default key that protects my " + strings.ToUpper(strings.TrimPrefix(k.alias, reservedPrefix)) + " resources when no other key is defined"
	// AWS rotates them every year.
	// https://docs.aws.amazon.com/kms/latest/developerguide/rotate-keys.html
	rec.Rotation = &rotation{PeriodInDays: defaultPeriod, Next: now.Add(defaultPeriod * day)}
	return s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := aliases.Get(tx, sc.Key(k.alias)); err == nil {
			return nil // created concurrently
		}
		if err := keys.Create(tx, sc.Key(rec.ID), rec); err != nil {
			return err
		}
		return aliases.Put(tx, sc.Key(k.alias), aliasRecord{Name: k.alias, KeyID: rec.ID, Created: now, Updated: now})
	})
}

// managedPolicy returns the key policy of an AWS managed key. Every principal of the account may
// use the key through its service, and the account may read its metadata.
// https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html
func managedPolicy(sc scope, alias string) string {
	service := strings.TrimPrefix(alias, reservedPrefix)
	return `{
  "Version" : "2012-10-17",
  "Id" : "auto-` + service + `-1",
  "Statement" : [ {
    "Sid" : "Allow access through ` + strings.ToUpper(service) + ` for all principals in the account that are authorized to use ` + strings.ToUpper(service) + `",
    "Effect" : "Allow",
    "Principal" : {
      "AWS" : "*"
    },
    "Action" : [ "kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:CreateGrant", "kms:DescribeKey" ],
    "Resource" : "*",
    "Condition" : {
      "StringEquals" : {
        "kms:CallerAccount" : "` + sc.Account + `",
        "kms:ViaService" : "` + managedService(alias) + `.` + sc.Region + `.amazonaws.com"
      }
    }
  }, {
    "Sid" : "Allow direct access to key metadata to the account",
    "Effect" : "Allow",
    "Principal" : {
      "AWS" : "arn:aws:iam::` + sc.Account + `:root"
    },
    "Action" : [ "kms:Describe*", "kms:Get*", "kms:List*", "kms:RevokeGrant" ],
    "Resource" : "*"
  } ]
}`
}

// isManaged reports whether an alias is one of AWS's predefined ones.
func isManaged(alias string) bool { return slices.Contains(managedAliases, alias) }
