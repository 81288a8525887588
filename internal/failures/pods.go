package failures

import "strings"

// apply returns a command that gives kubectl an object as one line of JSON.
func apply(object string) string { return "echo '" + object + "' | kubectl apply -f -" }

func pods() []Failure {
	return []Failure{
		{
			ID: "subnet-full", Title: "The subnet has run out of addresses", Broken: "Every pod takes an address from the node's subnet, and a /28 has eleven.",
			Own: OwnSmallSubnet, Outcome: Pod,
			UserData: nodeConfig + "  kubelet:\n    flags: [--node-labels=w4=full]\n", Launch: launch,
			After: []string{apply(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"full"},"spec":{"replicas":14,"selector":{"matchLabels":{"app":"full"}},"template":{"metadata":{"labels":{"app":"full"}},"spec":{"nodeSelector":{"w4":"full"},"containers":[{"name":"c","image":"nginx"}]}}}}`)},
			Look:  "kubectl describe pods --selector app=full", Symptom: `failed to assign an IP address to container`,
			Why: "pod default/full", Step: "address", Verdict: []string{"because of Kubernetes, NoFreeAddress", "aws ec2 describe-subnets --subnet-ids $SUBNET"},
			Fix:     []string{"kubectl scale deployment full --replicas 3"},
			Sources: []string{docAddresses},
		},
		{
			ID: "type-too-small", Title: "The instance type has few addresses for pods", Broken: "The interfaces and addresses of an instance type limit the number of pods on it: a t3.nano has room for four.",
			Outcome:  Pod,
			UserData: nodeConfig + "  kubelet:\n    flags: [--node-labels=w4=small]\n", Launch: strings.Replace(launch, "m5.large", "t3.nano", 1),
			After: []string{apply(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"small"},"spec":{"replicas":6,"selector":{"matchLabels":{"app":"small"}},"template":{"metadata":{"labels":{"app":"small"}},"spec":{"nodeSelector":{"w4":"small"},"containers":[{"name":"c","image":"nginx"}]}}}}`)},
			Look:  "kubectl describe pods --selector app=small", Symptom: `Too many pods`,
			Why: "pod default/small", Step: "scheduling", Verdict: []string{"because of Kubernetes, Unschedulable", "Too many pods"},
			Relaunch: true, FixedUserData: nodeConfig + "  kubelet:\n    flags: [--node-labels=w4=small]\n", FixedLaunch: launch,
			Sources: []string{docMaxPods},
		},
		{
			ID: "pod-service-account", Title: "A pod whose service account does not exist", Broken: "The API server does not admit pods whose service account does not exist; the Deployment gets no pods and reports it only in events.",
			Outcome: Pod,
			Break:   []string{apply(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"account"},"spec":{"selector":{"matchLabels":{"app":"account"}},"template":{"metadata":{"labels":{"app":"account"}},"spec":{"serviceAccountName":"cart","containers":[{"name":"c","image":"nginx"}]}}}}`)},
			Look:    "kubectl get events", Symptom: `error looking up service account default/cart: serviceaccount "cart" not found`,
			Why: "pod default/account", Step: "admission", Verdict: []string{"because of Kubernetes, Forbidden", "fix: kubectl create serviceaccount cart --namespace default"},
			Fix:     []string{"kubectl create serviceaccount cart --namespace default", "kubectl rollout restart deployment account"},
			Sources: []string{"https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/"},
		},
		{
			ID: "pod-quota", Title: "A pod exceeds its namespace's quota", Broken: "A ResourceQuota of the namespace is used up.",
			Outcome: Pod,
			Break: []string{
				"kubectl create namespace quota", "kubectl create quota few --hard pods=0 --namespace quota",
				"kubectl create deployment over --image nginx --namespace quota",
			},
			Look: "kubectl get events --namespace quota", Symptom: `exceeded quota: few, requested: pods=1, used: pods=0, limited: pods=0`,
			Why: "pod quota/over", Step: "admission", Verdict: []string{"because of Kubernetes, ExceededQuota", "fix: kubectl patch resourcequota few --namespace quota"},
			Fix:     []string{`kubectl patch resourcequota few --namespace quota --patch '{"spec":{"hard":{"pods":"2"}}}'`, "kubectl rollout restart deployment over --namespace quota"},
			Sources: []string{"https://kubernetes.io/docs/concepts/policy/resource-quotas/"},
		},
		{
			ID: "pod-selector", Title: "A pod that fits no node", Broken: "No node has the labels that the pod asks for.",
			Outcome: Pod,
			Break:   []string{apply(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"picky"},"spec":{"nodeSelector":{"disk":"ssd"},"containers":[{"name":"c","image":"nginx"}]}}`)},
			Look:    "kubectl describe pod picky", Symptom: `FailedScheduling.*didn't match Pod's node affinity/selector`,
			Why: "pod default/picky", Step: "scheduling", Verdict: []string{"because of Kubernetes, Unschedulable", "the pod wants nodes with disk=ssd", "fix: kubectl label node"},
			Fix:     []string{"kubectl label node $BASE_NODE disk=ssd"},
			Sources: []string{docPods},
		},
		{
			ID: "pod-image-name", Title: "An invalid image name", Broken: "A container's image name cannot be parsed.",
			Outcome: Pod,
			Break:   []string{apply(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"misspelt"},"spec":{"nodeSelector":{"w4":"base"},"containers":[{"name":"c","image":"Nginx:latest"}]}}`)},
			Look:    "kubectl get pod misspelt", Symptom: `InvalidImageName`,
			Why: "pod default/misspelt", Step: "image", Verdict: []string{"because of Kubernetes, InvalidImageName", "kubectl set image pod/misspelt c="},
			Fix:     []string{"kubectl set image pod/misspelt c=nginx:latest"},
			Sources: []string{"https://kubernetes.io/docs/concepts/containers/images/"},
		},
		{
			ID: "pod-provider", Title: "A pod with a role but no OpenID Connect provider", Broken: "The service account is annotated with a role, but the cluster's issuer is not registered in IAM: the pod runs, but its AWS calls fail.",
			Own: OwnRole, Outcome: Pod,
			Break: []string{
				"kubectl create serviceaccount shop", "kubectl annotate serviceaccount shop eks.amazonaws.com/role-arn=arn:aws:iam::000000000000:role/$ROLE",
				apply(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"shop"},"spec":{"serviceAccountName":"shop","nodeSelector":{"w4":"base"},"containers":[{"name":"c","image":"nginx"}]}}`),
			},
			Look: `aws sts assume-role-with-web-identity --role-arn arn:aws:iam::000000000000:role/$ROLE --role-session-name shop --web-identity-token $(kubectl create token shop --audience sts.amazonaws.com) 2>&1 || true`, Symptom: `InvalidIdentityToken.*No OpenIDConnect provider found in your account`,
			Why: "pod default/shop", Step: "identity", Verdict: []string{"because of IAM, provider", "fix: aws iam create-open-id-connect-provider"},
			Fix: []string{
				"aws iam create-open-id-connect-provider --url $ISSUER --client-id-list sts.amazonaws.com",
				`aws iam update-assume-role-policy --role-name $ROLE --policy-document '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::000000000000:oidc-provider/'${ISSUER#https://}'"},"Action":"sts:AssumeRoleWithWebIdentity"}]}'`,
			},
			Sources: []string{docIRSA},
		},
	}
}
