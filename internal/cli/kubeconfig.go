package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func newKubeconfig(o *globalOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubeconfig CLUSTER",
		Short: "Add a cluster to the kubeconfig, as aws eks update-kubeconfig does",
		Long: `Add a cluster to the kubeconfig ($KUBECONFIG or ~/.kube/config) and make it the
current one, as "aws eks update-kubeconfig" does, for machines without the aws CLI.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := o.callerConfig(cmd.Context())
			if err != nil {
				return err
			}
			file, err := o.writeKubeconfig(cmd.Context(), cfg, args[0], "")
			if err != nil {
				return err
			}
			o.progress("Cluster %s is the current one in %s.", args[0], file)
			return nil
		},
		ValidArgsFunction: completeOne(func(ctx context.Context) []string { return o.clusterNames(ctx, "", defaultRegion()) }),
	}
	return cmd
}

// writeKubeconfig merges the cluster into a kubeconfig (the given file, or the default one) and returns the file's
// name.
func (o *globalOptions) writeKubeconfig(ctx context.Context, cfg aws.Config, cluster, file string) (string, error) {
	out, err := awseks.NewFromConfig(cfg).DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: aws.String(cluster)})
	if ae, ok := errors.AsType[smithy.APIError](err); ok {
		text := ae.ErrorCode() + ": " + ae.ErrorMessage()
		if _, ok := errors.AsType[*ekstypes.ResourceNotFoundException](err); ok {
			text = "there is no cluster " + cluster + " in " + cfg.Region + " of this account"
		}
		return "", withHint(errors.New(text), "drydock status"+dataDirFlag(o.dataDir))
	}
	if err != nil {
		return "", withHint(fmt.Errorf("describing cluster %s: %w", cluster, err), "drydock status"+dataDirFlag(o.dataDir))
	}
	c := out.Cluster
	if c.Endpoint == nil || c.CertificateAuthority == nil {
		return "", withHint(fmt.Errorf("cluster %s is %s and has no endpoint yet", cluster, c.Status), "drydock status")
	}
	ca, err := base64.StdEncoding.DecodeString(aws.ToString(c.CertificateAuthority.Data))
	if err != nil {
		return "", fmt.Errorf("the cluster's CA: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	paths := clientcmd.NewDefaultPathOptions()
	if file != "" {
		paths.LoadingRules.ExplicitPath = file
	}
	kc, err := paths.GetStartingConfig()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	name := aws.ToString(c.Arn)
	kc.Clusters[name] = &clientcmdapi.Cluster{Server: aws.ToString(c.Endpoint), CertificateAuthorityData: ca}
	kc.AuthInfos[name] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion:      "client.authentication.k8s.io/v1",
		Command:         self,
		Args:            []string{"token", "--data-dir", o.dataDir, "--cluster", cluster},
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}
	kc.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kc.CurrentContext = name
	if err := clientcmd.ModifyConfig(paths, *kc, true); err != nil {
		return "", fmt.Errorf("writing the kubeconfig: %w", err)
	}
	if file == "" {
		file = paths.GetDefaultFilename()
	}
	return file, nil
}
