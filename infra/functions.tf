# The services, all from one image: FUNCTION_TARGET says which function a service is.

locals {
  ingress = {
    all                        = "INGRESS_TRAFFIC_ALL"
    internal                   = "INGRESS_TRAFFIC_INTERNAL_ONLY"
    internal-and-load-balancer = "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"
  }
}

resource "google_cloud_run_v2_service" "function" {
  for_each = local.functions

  name     = "convoke-${each.key}"
  location = var.region

  # Pub/Sub and Eventarc of this project count as internal.
  ingress              = length(each.value.topics) > 0 ? "INGRESS_TRAFFIC_INTERNAL_ONLY" : local.ingress[var.ingress]
  invoker_iam_disabled = false
  deletion_protection  = var.deletion_protection

  template {
    service_account = google_service_account.identity[each.key].email
    timeout         = "${local.request_seconds}s"

    # A large cluster's records take some 30 MB to read and CPU to take apart: a few at a time are well served, eighty
    # are not.
    max_instance_request_concurrency = 10

    scaling {
      min_instance_count = 0
      max_instance_count = var.max_instances
    }

    containers {
      image = var.image

      resources {
        limits            = { cpu = "1", memory = "512Mi" }
        cpu_idle          = true
        startup_cpu_boost = true
      }

      dynamic "env" {
        for_each = merge(
          {
            FUNCTION_TARGET      = each.key
            GOOGLE_CLOUD_PROJECT = var.project
            CONVOKE_DATABASE     = var.database
          },
          each.value.steward ? { CONVOKE_CONTROLLER_ACCOUNT = google_service_account.identity["controller"].email } : {},
        )
        content {
          name  = env.key
          value = env.value
        }
      }
    }
  }

  depends_on = [google_project_service.api, google_project_iam_member.grant]
}

locals {
  # Who may call which service: the invoker those that are pushed to, and people those that are for people.
  invokers = merge(
    { for name, f in local.functions : "${name} invoker" => { function = name, member = local.members["invoker"] } if length(f.topics) > 0 },
    { for m in var.api_callers : "api ${m}" => { function = "api", member = m } },
    { for m in var.console_viewers : "console ${m}" => { function = "console", member = m } },
  )
}

resource "google_cloud_run_v2_service_iam_member" "invoker" {
  for_each = local.invokers

  name     = google_cloud_run_v2_service.function[each.value.function].name
  location = var.region
  role     = "roles/run.invoker"
  member   = each.value.member
}
