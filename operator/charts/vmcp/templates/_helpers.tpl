{{/* Name of the application. */}}
{{- define "vmcp.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Beginning of the names of objects. Short enough for the longest end, -peers, in a label of 63 characters. */}}
{{- define "vmcp.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 57 | trimSuffix "-" }}
{{- else }}
{{- $name := include "vmcp.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 57 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 57 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels by which objects select pods. They never change. */}}
{{- define "vmcp.selectorLabels" -}}
app.kubernetes.io/name: {{ include "vmcp.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "vmcp.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{ include "vmcp.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: vmcp
{{- end }}

{{- define "vmcp.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "vmcp.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: name an existing account, or set serviceAccount.create" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Reference of an image: a dict with the image and the version of the chart. */}}
{{- define "vmcp.image" -}}
{{- if .image.digest }}
{{- printf "%s@%s" .image.repository .image.digest }}
{{- else }}
{{- printf "%s:%s" .image.repository (default .version .image.tag) }}
{{- end }}
{{- end }}

{{/* Names of Secrets, from names or objects with a name, joined by commas. The schema permits nothing else. */}}
{{- define "vmcp.secretNames" -}}
{{- $names := list }}
{{- range . }}
{{- $names = append $names (ternary . (get (ternary (dict) . (kindIs "string" .)) "name") (kindIs "string" .)) }}
{{- end }}
{{- join "," $names }}
{{- end }}

{{/* Security context of pods as YAML. OpenShift assigns the group of volumes, and refuses that of the image. */}}
{{- define "vmcp.podSecurityContext" -}}
{{- $context := default (dict) .Values.podSecurityContext }}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1/SecurityContextConstraints" }}
{{- if eq (int $context.fsGroup) 65532 }}
{{- $context = omit $context "fsGroup" }}
{{- end }}
{{- end }}
{{- toYaml $context }}
{{- end }}

{{/* Permissions of files with secrets, for the user and the group of volumes alone; the default without such a group. */}}
{{- define "vmcp.secretMode" -}}
{{- if get (default (dict) .Values.podSecurityContext) "fsGroup" -}}
defaultMode: 288 # 0440
{{- end }}
{{- end }}

{{- define "vmcp.sealSecretName" -}}
{{- default (printf "%s-seal" (include "vmcp.fullname" .)) .Values.sealKey.existingSecret }}
{{- end }}

{{/* Host names of a Service, from the shortest: a dict with the name and root. */}}
{{- define "vmcp.serviceHosts" -}}
{{- $space := .root.Release.Namespace }}
{{- list .name (printf "%s.%s" .name $space) (printf "%s.%s.svc" .name $space) (printf "%s.%s.svc.%s" .name $space .root.Values.clusterDomain) | join "," }}
{{- end }}

{{/* Address with a port: a dict with address and port. */}}
{{- define "vmcp.socket" -}}
{{- printf (ternary "[%s]:%d" "%s:%d" (contains ":" .address)) .address (int .port) }}
{{- end }}

{{/* Configuration of the server, with what other values add. */}}
{{- define "vmcp.config" -}}
{{- $config := deepCopy .Values.config }}
{{- if not $config.name }}
{{- $_ := set $config "name" (include "vmcp.fullname" .) }}
{{- end }}
{{- if .Values.redis.address }}
{{- $storage := dict "provider" "redis" "address" .Values.redis.address "keyPrefix" (printf "vmcp:%s:%s:" .Release.Namespace (include "vmcp.fullname" .)) }}
{{- $given := default (dict) $config.sessionStorage }}
{{- range $key := list "provider" "address" "sentinelConfig" }}
{{- if hasKey $given $key }}
{{- fail (printf "config.sessionStorage.%s: redis.address sets the storage: remove one of them" $key) }}
{{- end }}
{{- end }}
{{- $_ := set $config "sessionStorage" (merge $given $storage) }}
{{- end }}
{{- if .Values.serviceMonitor.enabled }}
{{- $telemetry := default (dict) $config.telemetry }}
{{- $_ := set $telemetry "enablePrometheusMetricsPath" true }}
{{- $_ := set $config "telemetry" $telemetry }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{/* Rules across values that the schema cannot express. */}}
{{- define "vmcp.check" -}}
{{- if and .Values.config.backends (eq .Values.config.incomingAuth.type "anonymous") (not .Values.allowAnonymousNetwork) }}
{{- fail "config.incomingAuth.type: every client of the Service could use all backends: set oidc, or allowAnonymousNetwork: true" }}
{{- end }}
{{- if and .Values.allowAnonymousNetwork (ne .Values.config.incomingAuth.type "anonymous") }}
{{- fail "allowAnonymousNetwork: config.incomingAuth.type is not anonymous: remove it" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (or .Values.ingress.enabled .Values.httpRoute.enabled) (not .Values.adminToken.existingSecret) }}
{{- fail "adminToken.existingSecret: /metrics would be public through the Ingress or HTTPRoute: name a Secret, or turn serviceMonitor off" }}
{{- end }}
{{- if ge (add (int .Values.preStopSleepSeconds) (int .Values.drain)) (int .Values.terminationGracePeriodSeconds) }}
{{- fail "terminationGracePeriodSeconds: must be more than preStopSleepSeconds and drain together" }}
{{- end }}
{{- $own := list "--config" "--env-dir" "--seal-key" "--host" "--port" "--peer-listen" "--peer-service" "--peer-address" "--drain" "--trusted-proxies" "--admin-token-file" "--log-format" "--allow-anonymous-network" }}
{{- range $index, $argument := .Values.extraArgs }}
{{- $option := first (splitList "=" $argument) }}
{{- if has $option $own }}
{{- fail (printf "extraArgs[%d]: the chart sets %s from other values: remove it" $index $option) }}
{{- end }}
{{- end }}
{{- $variables := list "POD_IP" "POD_NAME" "VMCP_CONFIG" "VMCP_SESSION_REDIS_PASSWORD" "VMCP_SESSION_REDIS_USERNAME" }}
{{- range $index, $variable := .Values.env }}
{{- if has $variable.name $variables }}
{{- fail (printf "env[%d].name: the chart sets %s from other values: remove it" $index $variable.name) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels of an object with further ones: a dict with root, extra and the field of the values. */}}
{{- define "vmcp.labelsWith" -}}
{{- $labels := include "vmcp.labels" .root | fromYaml }}
{{- range $name, $value := .extra }}
{{- if hasKey $labels $name }}
{{- fail (printf "%s: the chart sets the label %s: remove it" $.field $name) }}
{{- end }}
{{- end }}
{{- toYaml (merge $labels .extra) }}
{{- end }}
