{{/* Name of the application. */}}
{{- define "vmcp-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Beginning of the names of objects. Short enough for the longest end, -image-discovery, in a label of 63 characters. */}}
{{- define "vmcp-operator.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 46 | trimSuffix "-" }}
{{- else }}
{{- $name := include "vmcp-operator.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 46 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 46 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels by which objects select pods. They never change. */}}
{{- define "vmcp-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "vmcp-operator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "vmcp-operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{ include "vmcp-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: vmcp
{{- end }}

{{- define "vmcp-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "vmcp-operator.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: name an existing account, or set serviceAccount.create" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Reference of an image: a dict with the image and the version of the chart. */}}
{{- define "vmcp-operator.image" -}}
{{- if .image.digest }}
{{- printf "%s@%s" .image.repository .image.digest }}
{{- else }}
{{- printf "%s:%s" .image.repository (default .version .image.tag) }}
{{- end }}
{{- end }}

{{/* Names of Secrets, from names or objects with a name, joined by commas. The schema permits nothing else. */}}
{{- define "vmcp-operator.secretNames" -}}
{{- $names := list }}
{{- range . }}
{{- $names = append $names (ternary . (get (ternary (dict) . (kindIs "string" .)) "name") (kindIs "string" .)) }}
{{- end }}
{{- join "," $names }}
{{- end }}

{{/* Default Redis as JSON, from defaultRedis or global.redis: address, secret, key. */}}
{{- define "vmcp-operator.redis" -}}
{{- $own := .Values.defaultRedis }}
{{- $shared := .Values.global.redis }}
{{- if $own.address }}
{{- dict "address" $own.address "secret" $own.existingSecret "key" $own.existingSecretKey | toJson }}
{{- else if $shared.host }}
{{- dict "address" (printf "%s:%d" $shared.host (int $shared.port)) "secret" $shared.existingSecret "key" $shared.existingSecretKey | toJson }}
{{- else }}
{{- dict | toJson }}
{{- end }}
{{- end }}

{{/* Roles of files/role.yaml as JSON: {"roles": [...]}, with the names of this release for vmcp-operator and vmcp-system. Names of
objects without a namespace begin with that of the release, so that releases of one name in several namespaces do not share them.
isScoped marks the role for the watched namespaces, bindingName is the name of its bindings. */}}
{{- define "vmcp-operator.roles" -}}
{{- $roles := list }}
{{- range $document := regexSplit "(?m)^---$" (.Files.Get "files/role.yaml") -1 }}
{{- $role := fromYaml $document }}
{{- $fullname := include "vmcp-operator.fullname" $ }}
{{- $_ := set $role "isScoped" (eq $role.metadata.name "vmcp-operator") }}
{{- $name := $role.metadata.name | replace "vmcp-operator" $fullname }}
{{- range $rule := $role.rules }}
{{- $names := list }}
{{- range default (list) $rule.resourceNames }}
{{- $names = append $names (. | replace "vmcp-operator" $fullname | replace "vmcp-system" $.Release.Namespace) }}
{{- end }}
{{- if $names }}
{{- $_ := set $rule "resourceNames" $names }}
{{- end }}
{{- end }}
{{- if eq $role.kind "ClusterRole" }}
{{- $name = printf "%s:%s" $.Release.Namespace $name }}
{{- end }}
{{- $binding := $name }}
{{- if eq $role.metadata.name "vmcp-operator-leader" }}
{{- $own := $.Values.leaderElectionRole }}
{{- $binding = default $binding $own.binding.name }}
{{- $name = default $name $own.name }}
{{- $_ := set $role "rules" (default $role.rules $own.rules) }}
{{- end }}
{{- $_ := set $role "bindingName" $binding }}
{{- $_ := set $role.metadata "name" $name }}
{{- $roles = append $roles $role }}
{{- end }}
{{- dict "roles" $roles | toJson }}
{{- end }}

{{/* Labels of an object with further ones: a dict with root, extra and the field of the values. */}}
{{- define "vmcp-operator.labelsWith" -}}
{{- $labels := include "vmcp-operator.labels" .root | fromYaml }}
{{- range $name, $value := .extra }}
{{- if hasKey $labels $name }}
{{- fail (printf "%s: the chart sets the label %s: remove it" $.field $name) }}
{{- end }}
{{- end }}
{{- toYaml (merge $labels .extra) }}
{{- end }}
