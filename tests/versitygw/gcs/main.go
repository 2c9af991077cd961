// Gcs lets an S3 server be asked as Google Cloud Storage is through its XML API, which takes the
// requests of S3 and answers them alike. What differs is done here: a service account signs tokens and
// addresses by its key, names may hold encoded slashes, and a condition has another name. It stands in
// for an emulator: none that was found takes a file through that API, fake-gcs-server 1.56 neither.
package main

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// What clients sign for, whichever address they reach it under.
const host = "storage.googleapis.com"

// The time of a signature, as both protocols write it.
const timeFormat = "20060102T150405Z"

// Why a request is refused: its status and, as Google says it, the code of the error.
type refusal struct {
	status int
	code   string
}

// A service account, by its public key.
type account struct {
	email string
	key   *rsa.PublicKey
}

func main() {
	listen := flag.String("listen", "", "the address to listen on")
	storage := flag.String("s3", "", "the URL of the S3 server, of which AWS_… name the credentials")
	email := flag.String("email", "", "the service account that may come in")
	keyFile := flag.String("key", "", "the file of its public key")
	flag.Parse()
	target, err := url.Parse(*storage)
	if err != nil {
		log.Fatal(err)
	}
	key, err := readKey(*keyFile)
	if err != nil {
		log.Fatal(err)
	}
	known := account{*email, key}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { rewrite(r, target) },
		Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16},
	}
	log.Fatal(http.ListenAndServe(*listen, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path, r.URL.RawQuery)
		if refused := known.check(r); refused != nil {
			w.WriteHeader(refused.status)
			fmt.Fprintf(w, "<?xml version='1.0' encoding='UTF-8'?><Error><Code>%s</Code><Message>%s</Message></Error>",
				refused.code, http.StatusText(refused.status))
			return
		}
		proxy.ServeHTTP(w, r)
	})))
}

func readKey(file string) (*rsa.PublicKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM", file)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%s holds no key of RSA", file)
	}
	return public, nil
}

// check says why a request may not come in; nothing, where it may.
func (a account) check(r *http.Request) *refusal {
	if r.URL.Query().Has("X-Goog-Signature") {
		return a.checkAddress(r)
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || !a.signedToken(token) {
		return &refusal{http.StatusUnauthorized, "AuthenticationRequired"}
	}
	return nil
}

// signedToken tells whether the account has signed the token (a JWT) and it still holds.
func (a account) signedToken(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !a.signed(parts[0]+"."+parts[1], signature) {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Issuer string `json:"iss"`
		Expiry int64  `json:"exp"`
	}
	return err == nil && json.Unmarshal(payload, &claims) == nil &&
		claims.Issuer == a.email && time.Now().Unix() < claims.Expiry
}

// checkAddress says why an address that was signed may not be read.
func (a account) checkAddress(r *http.Request) *refusal {
	query := r.URL.Query()
	signature, err := hex.DecodeString(query.Get("X-Goog-Signature"))
	query.Del("X-Goog-Signature")
	date := query.Get("X-Goog-Date")
	begun, badDate := time.Parse(timeFormat, date)
	holds, badSpan := time.ParseDuration(query.Get("X-Goog-Expires") + "s")
	email, scope, _ := strings.Cut(query.Get("X-Goog-Credential"), "/")
	request := strings.Join([]string{
		r.Method, r.URL.EscapedPath(), strings.ReplaceAll(query.Encode(), "+", "%20"),
		"host:" + host, "", "host", "UNSIGNED-PAYLOAD",
	}, "\n")
	hash := sha256.Sum256([]byte(request))
	message := strings.Join([]string{
		query.Get("X-Goog-Algorithm"), date, scope, hex.EncodeToString(hash[:]),
	}, "\n")
	switch {
	case err != nil || badDate != nil || badSpan != nil || email != a.email || !a.signed(message, signature):
		return &refusal{http.StatusForbidden, "SignatureDoesNotMatch"}
	case time.Now().After(begun.Add(holds)):
		return &refusal{http.StatusBadRequest, "ExpiredToken"}
	default:
		return nil
	}
}

func (a account) signed(message string, signature []byte) bool {
	hash := sha256.Sum256([]byte(message))
	return rsa.VerifyPKCS1v15(a.key, crypto.SHA256, hash[:], signature) == nil
}

// rewrite makes a request of Google Cloud Storage one of S3, signed with the server's credentials.
func rewrite(r *httputil.ProxyRequest, target *url.URL) {
	out := r.Out
	out.URL.Scheme, out.URL.Host, out.Host = target.Scheme, target.Host, target.Host
	out.URL.RawPath = ""
	query := out.URL.Query()
	for name := range query {
		if strings.HasPrefix(name, "X-Goog-") {
			query.Del(name)
		}
	}
	out.URL.RawQuery = query.Encode()
	out.Header.Del("Authorization")
	if out.Header.Get("X-Goog-If-Generation-Match") == "0" {
		out.Header.Set("If-None-Match", "*")
	}
	const payload = "UNSIGNED-PAYLOAD"
	out.Header.Set("X-Amz-Content-Sha256", payload)
	credentials := aws.Credentials{
		AccessKeyID:     os.Getenv("AWS_ACCESS_KEY_ID"),
		SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
	}
	signer := v4.NewSigner(func(options *v4.SignerOptions) { options.DisableURIPathEscaping = true })
	region := os.Getenv("AWS_REGION")
	err := signer.SignHTTP(out.Context(), credentials, out, payload, "s3", region, time.Now())
	if err != nil {
		log.Print(err)
	}
}
