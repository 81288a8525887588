package programs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	credentialprovider "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// ecrImage matches the name of an image in a private registry of ECR.
var ecrImage = regexp.MustCompile(`^([0-9]{12})\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)/`)

// credentialPatience is how long ECR may take to answer.
const credentialPatience = 30 * time.Second

// provideCredentials is a credential provider of the kubelet for ECR, as cloud-provider-aws has it: it reads a request and
// writes the response, with a token that ECR has given to the instance's role.
// https://github.com/kubernetes/cloud-provider-aws/blob/master/cmd/ecr-credential-provider/main.go
func provideCredentials([]string) int {
	ctx, cancel := context.WithTimeout(context.Background(), credentialPatience)
	defer cancel()
	return code(answerRequest(ctx, os.Stdin, os.Stdout))
}

func answerRequest(ctx context.Context, in io.Reader, out io.Writer) error {
	var req credentialprovider.CredentialProviderRequest
	if err := json.NewDecoder(io.LimitReader(in, 1<<20)).Decode(&req); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	m := ecrImage.FindStringSubmatch(req.Image)
	if m == nil {
		return fmt.Errorf("%q is not the name of an image in ECR", req.Image)
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(m[2]))
	if err != nil {
		return err
	}
	//lint:ignore SA1019 as upstream's provider asks
	token, err := awsecr.NewFromConfig(cfg).GetAuthorizationToken(ctx, &awsecr.GetAuthorizationTokenInput{RegistryIds: []string{m[1]}})
	if err != nil {
		return err
	}
	if len(token.AuthorizationData) == 0 {
		return errors.New("got empty response from ECR")
	}
	data := token.AuthorizationData[0]
	plain, err := base64.StdEncoding.DecodeString(aws.ToString(data.AuthorizationToken))
	user, password, ok := strings.Cut(string(plain), ":")
	if err != nil || !ok {
		return errors.New("ECR's authorization token is not of the form USER:PASSWORD in base64")
	}
	return json.NewEncoder(out).Encode(credentialprovider.CredentialProviderResponse{
		TypeMeta:      metav1.TypeMeta{APIVersion: credentialprovider.SchemeGroupVersion.String(), Kind: "CredentialProviderResponse"},
		CacheKeyType:  credentialprovider.RegistryPluginCacheKeyType,
		CacheDuration: &metav1.Duration{Duration: time.Until(aws.ToTime(data.ExpiresAt)) / 2},
		Auth:          map[string]credentialprovider.AuthConfig{strings.TrimSuffix(m[0], "/"): {Username: user, Password: password}},
	})
}
