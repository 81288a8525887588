package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"

	"github.com/drydock-dev/drydock/internal/api"
)

// awsConfig returns the official SDK's configuration for the running daemon, with the credentials that `drydock env`
// prints.
func awsConfig(info api.DaemonInfo) aws.Config {
	return aws.Config{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(info.URL),
		Credentials:  credentials.NewStaticCredentialsProvider(info.AccessKeyID, info.SecretAccessKey, ""),
	}
}

func newToken(o *globalOptions) *cobra.Command {
	var cluster string
	cmd := &cobra.Command{
		Use:   "token --cluster NAME",
		Short: "Print a token for a cluster, as aws eks get-token does",
		Long: `Print an ExecCredential with a token for a cluster, as "aws eks get-token" does, for
machines without the aws CLI. The AWS environment variables decide whose token it is;
without them it is the daemon's default user's.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cluster == "" {
				return &ExitError{2, withHint(errors.New("--cluster is missing"), "drydock token --cluster NAME")}
			}
			cfg, err := o.callerConfig(cmd.Context())
			if err != nil {
				return err
			}
			token, expires, err := eksToken(cmd.Context(), cfg, cluster)
			if err != nil {
				return err
			}
			return o.printJSON(clientauthv1.ExecCredential{
				TypeMeta: metav1.TypeMeta{APIVersion: clientauthv1.SchemeGroupVersion.String(), Kind: "ExecCredential"},
				Status: &clientauthv1.ExecCredentialStatus{
					ExpirationTimestamp: &metav1.Time{Time: expires},
					Token:               token,
				},
			})
		},
	}
	cmd.Flags().StringVar(&cluster, "cluster", "", "name of the cluster")
	return cmd
}

// callerConfig returns the caller's own AWS configuration if the environment has one, otherwise that of the daemon's
// default user.
func (o *globalOptions) callerConfig(ctx context.Context) (aws.Config, error) {
	if os.Getenv("AWS_ACCESS_KEY_ID") != "" || os.Getenv("AWS_PROFILE") != "" {
		return config.LoadDefaultConfig(ctx)
	}
	info, err := o.readInfo()
	if err != nil {
		return aws.Config{}, err
	}
	return awsConfig(info), nil
}

// eksToken presigns sts:GetCallerIdentity for a cluster. A token is valid for 15 minutes; clients renew it a minute
// earlier. https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster
func eksToken(ctx context.Context, cfg aws.Config, cluster string) (string, time.Time, error) {
	presign := awssts.NewPresignClient(awssts.NewFromConfig(cfg))
	req, err := presign.PresignGetCallerIdentity(ctx, &awssts.GetCallerIdentityInput{}, func(po *awssts.PresignOptions) {
		po.ClientOptions = append(po.ClientOptions, awssts.WithAPIOptions(
			smithyhttp.AddHeaderValue("x-k8s-aws-id", cluster),
			smithyhttp.AddHeaderValue("X-Amz-Expires", "60"),
		))
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("presigning the token: %w", err)
	}
	return "k8s-aws-v1." + base64.RawURLEncoding.EncodeToString([]byte(req.URL)), time.Now().Add(14 * time.Minute), nil
}

func newAMI(o *globalOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ami",
		Short: "List images and map image IDs from elsewhere to them",
	}
	var output, region string
	list := &cobra.Command{
		Use:     "list [WORD...]",
		Short:   "List the images of a region: all, or those with every WORD in their ID, name, version or aliases",
		Example: "  drydock ami list 1.33 arm64\n  drydock ami list bottlerocket",
		RunE: func(cmd *cobra.Command, words []string) error {
			daemon, err := o.client()
			if err != nil {
				return err
			}
			images, err := daemon.Images(cmd.Context(), region)
			if err != nil {
				return err
			}
			images = slices.DeleteFunc(images, func(i api.Image) bool { return !imageHas(i, words) })
			if output == "json" {
				return o.printJSON(images)
			}
			if len(images) == 0 {
				return withHint(fmt.Errorf("no image of %s has all of these words: %s", region, strings.Join(words, ", ")), "drydock ami list")
			}
			rows := [][]string{{"IMAGE", "KUBERNETES", "NAME", "ALIASES"}}
			for _, i := range images {
				rows = append(rows, []string{i.ID, i.Kubernetes, i.Name, strings.Join(i.Aliases, ",")})
			}
			return o.printTable(rows)
		},
	}
	outputFlag(list, &output)
	list.Flags().StringVar(&region, "region", "us-east-1", "the region")
	alias := &cobra.Command{
		Use:     "alias AMI-ID NAME",
		Short:   "Make an image ID from another account or year stand for a catalog image",
		Example: "  drydock ami alias ami-0d275f57a60281ccc amazon-eks-node-1.32",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			daemon, err := o.client()
			if err != nil {
				return err
			}
			if err := daemon.AliasImage(cmd.Context(), api.ImageAlias{ID: args[0], Name: args[1]}); err != nil {
				return o.orHint(err, suggestImage(cmd.Context(), daemon, args[0], args[1]), "drydock ami list")
			}
			o.progress("%s now stands for %s.", args[0], args[1])
			return nil
		},
	}
	alias.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		daemon, err := o.client()
		if err != nil || len(args) != 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := imageNames(cmd.Context(), daemon)
		return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, begun) }), cobra.ShellCompDirectiveNoFileComp
	}
	cmd.AddCommand(list, alias)
	return cmd
}

// imageHas reports whether every word is in something of an image.
func imageHas(i api.Image, words []string) bool {
	all := strings.ToLower(strings.Join(append([]string{i.ID, i.Name, i.Kubernetes}, i.Aliases...), " "))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, strings.ToLower(w)) })
}

// suggestImage is the command for the image whose name is most like the one given.
func suggestImage(ctx context.Context, daemon *api.Client, id, name string) string {
	if near := nearest(name, imageNames(ctx, daemon)); near != "" {
		return "drydock ami alias " + id + " " + near
	}
	return "drydock ami list"
}

var imageRelease = regexp.MustCompile(`-v[0-9].*$`)

// imageNames are the names of images without their release, which then means the newest.
func imageNames(ctx context.Context, daemon *api.Client) []string {
	images, err := daemon.Images(ctx, "us-east-1")
	if err != nil {
		return nil
	}
	var out []string
	for _, i := range images {
		if name := imageRelease.ReplaceAllString(i.Name, ""); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
