// Command authorizer judges node agents by Gardener's own rules, as its
// resource manager does in front of a Shoot's API server: it serves the webhook
// node-agent-authorizer and runs the controller that approves certificates.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	resourcemanagerconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/resourcemanager/v1alpha1"
	"github.com/gardener/gardener/pkg/component/extensions/operatingsystemconfig/original/components/nodeagent"
	"github.com/gardener/gardener/pkg/component/nodemanagement/machinecontrollermanager"
	"github.com/gardener/gardener/pkg/logger"
	resourcemanagerclient "github.com/gardener/gardener/pkg/resourcemanager/client"
	"github.com/gardener/gardener/pkg/resourcemanager/controller/csrapprover"
	"github.com/gardener/gardener/pkg/resourcemanager/webhook/nodeagentauthorizer"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// options are the flags.
type options struct {
	kubeconfig  string
	address     string
	certificate string
	key         string

	// machines is the namespace of the Machine objects. It is empty for
	// self-hosted Shoots without machines: each is named as its Node then.
	machines string
}

func main() {
	// Libraries of Gardener register flags as well.
	flags := flag.NewFlagSet("authorizer", flag.ExitOnError)
	var o options
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` of one who may do everything")
	flags.StringVar(&o.address, "address", "", "`host:port` to serve the webhook at")
	flags.StringVar(&o.certificate, "certificate", "", "`file` with the server's certificate")
	flags.StringVar(&o.key, "key", "", "`file` with its key, in the same directory")
	flags.StringVar(&o.machines, "machine-namespace", "",
		"`namespace` of the Machine objects; none: machines are named as their Nodes")

	if err := flags.Parse(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "authorizer:", err)
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "authorizer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	log, err := logger.NewZapLogger(logger.InfoLevel, logger.FormatText)
	if err != nil {
		return err
	}

	logf.SetLogger(log)

	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	if err := o.deploy(ctx, config); err != nil {
		return err
	}

	host, text, err := net.SplitHostPort(o.address)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}

	port, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}

	mgr, err := manager.New(config, manager.Options{
		Logger:  log,
		Scheme:  resourcemanagerclient.CombinedScheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host:     host,
			Port:     port,
			CertDir:  filepath.Dir(o.certificate),
			CertName: filepath.Base(o.certificate),
			KeyName:  filepath.Base(o.key),
		}),
	})
	if err != nil {
		return err
	}
	if err := o.addGardener(mgr); err != nil {
		return err
	}
	if err := o.addReadiness(ctx, mgr); err != nil {
		return err
	}

	return mgr.Start(ctx)
}

// machineNamespace is nil if there are no Machine objects.
func (o options) machineNamespace() *string {
	if o.machines == "" {
		return nil
	}
	return &o.machines
}

// deploy creates what a gardenlet has created before the resource manager
// starts: the right of bootstrap tokens to ask for certificates, and where
// there are machines, their custom resource definitions.
func (o options) deploy(ctx context.Context, config *rest.Config) error {
	c, err := client.New(config, client.Options{Scheme: resourcemanagerclient.CombinedScheme})
	if err != nil {
		return err
	}

	for _, object := range nodeagent.GetCertificateSigningRequestClusterRoleBindings() {
		if err := c.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%s: %w", object.GetName(), err)
		}
	}

	if o.machines == "" {
		return nil
	}

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.machines}}
	if err := c.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("namespace %s: %w", o.machines, err)
	}

	definitions, err := machinecontrollermanager.NewCRD(c)
	if err != nil {
		return err
	}
	if err := definitions.Deploy(ctx); err != nil {
		return fmt.Errorf("definition of Machine: %w", err)
	}

	return definitions.Wait(ctx)
}

// addGardener adds the webhook and the controller to the manager, configured as
// the gardenlet configures them (machines) and gardenadm (none).
func (o options) addGardener(mgr manager.Manager) error {
	authorizer := &nodeagentauthorizer.Webhook{
		Logger: mgr.GetLogger().WithName("webhook").WithName(nodeagentauthorizer.HandlerName),
		Config: resourcemanagerconfigv1alpha1.NodeAgentAuthorizerWebhookConfig{
			Enabled:                true,
			MachineNamespace:       o.machineNamespace(),
			AuthorizeWithSelectors: new(true),
		},
	}
	if err := authorizer.AddToManager(mgr, mgr.GetClient(), mgr.GetClient()); err != nil {
		return err
	}

	clients, err := clientset.NewForConfig(mgr.GetConfig())
	if err != nil {
		return err
	}

	approver := &csrapprover.Reconciler{
		CertificatesClient: clients.CertificatesV1().CertificateSigningRequests(),
		Config: resourcemanagerconfigv1alpha1.CSRApproverControllerConfig{
			Enabled:          true,
			ConcurrentSyncs:  new(1),
			MachineNamespace: o.machineNamespace(),
		},
	}

	return approver.AddToManager(mgr, mgr, mgr)
}

// addReadiness serves /readyz beside the webhook: ok as soon as the caches that
// the authorizer looks into are filled.
func (o options) addReadiness(ctx context.Context, mgr manager.Manager) error {
	objects := []client.Object{
		&certificatesv1.CertificateSigningRequest{},
		&corev1.Node{},
		&corev1.Pod{},
		&corev1.Secret{},
	}

	if o.machines != "" {
		objects = append(objects, &machinev1alpha1.Machine{})
	}

	for _, object := range objects {
		if _, err := mgr.GetCache().GetInformer(ctx, object); err != nil {
			return err
		}
	}

	mgr.GetWebhookServer().Register(
		"/readyz",
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			defer cancel()

			if !mgr.GetCache().WaitForCacheSync(ctx) {
				http.Error(w, "caches are not filled yet", http.StatusServiceUnavailable)
			}
		}),
	)

	return nil
}
