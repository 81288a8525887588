package cli

import (
	"cmp"
	"slices"
	"strings"
)

// firstAccount is the account of those who name none.
const firstAccount = "000000000000"

// asRoot are the variables by which commands run as the root of an account, if that is not
// the caller's: printed commands do not say whose they are.
func asRoot(account string) []string {
	if account == "" || account == cmp.Or(defaultAccount(), firstAccount) {
		return nil
	}
	return rootOf(account)
}

// rootOf are the variables by which commands run as the root of an account.
func rootOf(account string) []string {
	return []string{"AWS_ACCESS_KEY_ID=" + account, "AWS_SECRET_ACCESS_KEY=test"}
}

// noteAccount says what the printed commands need in order to work for another account.
func (o *globalOptions) noteAccount(account string) {
	if as := asRoot(account); as != nil {
		o.progress("Fixes are for account %s: export %s (and unset %s) before you run them.", account, strings.Join(as, " "), strings.Join(unset, " "))
	}
}

// withAccount is an environment with another account's credentials, if there have to be.
func withAccount(env []string, account string) []string {
	if as := asRoot(account); as != nil {
		return withCredentials(env, as)
	}
	return env
}

// withCredentials is an environment with other credentials.
func withCredentials(env, credentials []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(unset, name)
	})
	return append(env, credentials...)
}
