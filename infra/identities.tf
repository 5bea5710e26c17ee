# Who acts, and what each may do. Every function has an identity of its own, and so have the machines of the clusters and
# whoever calls the functions. No role is wider than its use: where a condition can bound a role, one does, and where
# a single topic, service or account can be named, the role is given there and not on the project.

locals {
  # All identities, by what they are for.
  identities = merge(
    { for name, f in local.functions : name => "Convoke function ${name}" },
    {
      invoker    = "Convoke: Pub/Sub and Eventarc as callers of the functions"
      node       = "Convoke: login and compute nodes"
      controller = "Convoke: Slurm controllers"
    },
  )
  members = { for name, account in google_service_account.identity : name => "serviceAccount:${account.email}" }
}

resource "google_service_account" "identity" {
  for_each = local.identities

  account_id   = "convoke-${each.key}"
  display_name = each.value

  depends_on = [google_project_service.api]
}

locals {
  # Secret Manager names secrets by the project's number in conditions. Ours all begin alike.
  our_secrets = {
    title      = "secrets of clusters only"
    expression = "resource.name.startsWith(\"projects/${local.number}/secrets/convoke-\")"
  }
  our_database = {
    title      = "the database ${var.database} only"
    expression = "resource.name == \"projects/${var.project}/databases/${var.database}\""
  }

  steward_role    = google_project_iam_custom_role.role["steward"].name
  secrets_role    = google_project_iam_custom_role.role["secrets"].name
  controller_role = google_project_iam_custom_role.role["controller"].name

  # Every role on the project.
  grants = merge(
    { for f in local.stewards : "${f} steward" => { member = local.members[f], role = local.steward_role, condition = null } },
    { for f in local.stewards : "${f} secrets" => { member = local.members[f], role = local.secrets_role, condition = local.our_secrets } },
    { for f in setunion(local.stewards, ["api"]) : "${f} database" => { member = local.members[f], role = "roles/datastore.user", condition = local.our_database } },
    {
      "console database" = { member = local.members["console"], role = "roles/datastore.viewer", condition = local.our_database }

      # Eventarc delivers as the invoker.
      "invoker eventarc" = { member = local.members["invoker"], role = "roles/eventarc.eventReceiver", condition = null }

      "controller commands" = { member = local.members["controller"], role = local.controller_role, condition = null }

      # Managed instance groups act as this robot: it makes the machines that resize requests ask for.
      "google-apis machines" = { member = local.google_apis_agent, role = "roles/compute.instanceAdmin.v1", condition = null }
    },
    merge([for m in ["node", "controller"] : {
      "${m} secrets" = { member = local.members[m], role = "roles/secretmanager.secretAccessor", condition = local.our_secrets }
      "${m} logs"    = { member = local.members[m], role = "roles/logging.logWriter", condition = null }
      "${m} metrics" = { member = local.members[m], role = "roles/monitoring.metricWriter", condition = null }
    }]...),
  )
}

resource "google_project_iam_member" "grant" {
  for_each = local.grants

  project = var.project
  role    = each.value.role
  member  = each.value.member

  dynamic "condition" {
    for_each = each.value.condition == null ? [] : [each.value.condition]
    content {
      title      = condition.value.title
      expression = condition.value.expression
    }
  }
}

# The permissions themselves are in permissions.yaml, each with what it is for.
resource "google_project_iam_custom_role" "role" {
  for_each = {
    steward    = "Convoke steward: makes, watches and removes the machines of clusters"
    secrets    = "Convoke steward: keeps the secrets of clusters, without reading them"
    controller = "Convoke controller: takes the commands that are meant for it"
  }

  role_id     = "convoke.${each.key}"
  title       = each.value
  permissions = flatten(values(local.permissions[each.key]))

  depends_on = [google_project_service.api]
}

locals {
  # As whom machines run: the two identities above, and what else cluster specs name.
  machine_accounts = merge(
    { for m in ["node", "controller"] : m => google_service_account.identity[m].name },
    { for email in var.cluster_service_accounts : email => "projects/${var.project}/serviceAccounts/${email}" },
  )
  # Who may start machines as them.
  machine_starters = merge({ for f in local.stewards : f => local.members[f] }, { google-apis = local.google_apis_agent })
}

resource "google_service_account_iam_member" "machine_starter" {
  for_each = { for pair in setproduct(keys(local.machine_accounts), keys(local.machine_starters)) :
    "${pair[1]} as ${pair[0]}" => { account = local.machine_accounts[pair[0]], member = local.machine_starters[pair[1]] }
  }

  service_account_id = each.value.account
  role               = "roles/iam.serviceAccountUser"
  member             = each.value.member
}
