package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/atomicfile"
	"github.com/drydock-dev/drydock/internal/awsapi"
)

// makeCredentials gives the default user an access key that only users who can read the data folder know. It runs
// before the daemon serves requests; d.info is not written after that.
func (d *daemon) makeCredentials(ctx context.Context) error {
	k, ok := readMadeKey(d.cfg.DataDir)
	if ok {
		secret, _, err := d.iam.LookupAccessKey(ctx, k.AccessKeyID)
		ok = err == nil && secret == k.SecretAccessKey
	}
	if !ok {
		ctx := awsapi.WithCall(ctx, &awsapi.Call{Account: awsapi.DefaultAccount, Region: "us-east-1"})
		out, err := d.iam.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("admin")})
		if err != nil {
			return fmt.Errorf("making credentials for the user admin: %w\nTry: drydock up on loopback, then aws iam delete-access-key --user-name admin --access-key-id ID", err)
		}
		k = madeKey{aws.ToString(out.AccessKey.AccessKeyId), aws.ToString(out.AccessKey.SecretAccessKey)}
		if err := writeMadeKey(d.cfg.DataDir, k); err != nil {
			return err
		}
	}
	d.info.AccessKeyID, d.info.SecretAccessKey = k.AccessKeyID, k.SecretAccessKey
	return nil
}

// A madeKey is the access key of the default user of a daemon that listens beyond loopback, where test/test must not
// be accepted.
type madeKey struct {
	AccessKeyID     string `json:"accessKeyId"`
	SecretAccessKey string `json:"secretAccessKey"`
}

// readMadeKey returns the key made earlier for this data folder, if any.
func readMadeKey(dir string) (madeKey, bool) {
	var k madeKey
	b, err := os.ReadFile(filepath.Join(dir, "credentials.json"))
	if err != nil || json.Unmarshal(b, &k) != nil {
		return madeKey{}, false
	}
	return k, true
}

func writeMadeKey(dir string, k madeKey) error {
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, "credentials.json"), b, 0o600)
}
