# What must be true of every deployment, whatever else changes. The provider is a mock: nothing is made anywhere.

mock_provider "google" {
  mock_data "google_project" {
    defaults = { number = "123456789012" }
  }
}

variables {
  project         = "team-train"
  region          = "us-central1"
  image           = "us-central1-docker.pkg.dev/team-train/convoke/functions:1a2b3c4"
  api_callers     = ["group:hpc@example.com"]
  console_viewers = ["group:researchers@example.com"]
  alert_emails    = ["oncall@example.com"]
}

run "every_function_has_a_service" {
  assert {
    condition = keys(google_cloud_run_v2_service.function) == [
      "api", "clusters", "console", "hardware", "preemption", "reconcile", "resize",
    ]
    error_message = "The services are not those of the functions in the image."
  }

  assert {
    condition = alltrue([for name, s in google_cloud_run_v2_service.function :
      { for e in s.template[0].containers[0].env : e.name => e.value }["FUNCTION_TARGET"] == name
    ])
    error_message = "A service does not serve the function that it is named after."
  }

  assert {
    condition     = alltrue([for s in google_cloud_run_v2_service.function : s.template[0].containers[0].image == var.image])
    error_message = "A service does not run the image."
  }
}

run "every_service_has_its_own_identity" {
  assert {
    condition = alltrue([for name, s in google_cloud_run_v2_service.function :
      s.template[0].service_account == google_service_account.identity[name].email
    ])
    error_message = "A service runs as somebody else."
  }

  assert {
    condition     = length(distinct([for s in google_cloud_run_v2_service.function : s.template[0].service_account])) == length(google_cloud_run_v2_service.function)
    error_message = "Two services share an identity."
  }

  # Users' jobs run on the nodes: what the controller may do must not be in their reach.
  assert {
    condition = alltrue([for name, s in google_cloud_run_v2_service.function :
      { for e in s.template[0].containers[0].env : e.name => e.value }["CONVOKE_CONTROLLER_ACCOUNT"] == google_service_account.identity["controller"].email
      if local.functions[name].steward
    ])
    error_message = "A steward does not know as whom controllers run."
  }

  assert {
    condition     = alltrue([for a in google_service_account.identity : length(a.account_id) >= 6 && length(a.account_id) <= 30])
    error_message = "An account id has 6 to 30 characters."
  }
}

run "every_topic_is_taken_by_its_functions" {
  assert {
    condition = keys(google_pubsub_topic.topic) == [
      "cluster-requests", "dead-letters", "instance-events", "slurm-commands", "slurm-events", "ticks",
    ]
    error_message = "The topics are not those that the functions and agents name."
  }

  assert {
    condition = keys(google_pubsub_subscription.push) == [
      "cluster-requests-clusters", "instance-events-hardware", "instance-events-preemption",
      "slurm-events-hardware", "slurm-events-preemption", "slurm-events-resize", "ticks-reconcile",
    ]
    error_message = "A topic is pushed to other functions than those that take its events."
  }

  assert {
    condition = alltrue([for name, s in google_pubsub_subscription.push :
      s.topic == google_pubsub_topic.topic[trimsuffix(name, "-${element(split("-", name), -1)}")].id
      && s.push_config[0].push_endpoint == google_cloud_run_v2_service.function[element(split("-", name), -1)].uri
    ])
    error_message = "A subscription is not between the topic and the function of its name."
  }
}

run "nothing_that_was_sent_is_dropped" {
  assert {
    condition     = alltrue([for name, s in google_pubsub_subscription.push : s.filter == "" || startswith(s.filter, "NOT ") && name != "slurm-events-resize"])
    error_message = "A filter drops what it does not know."
  }

  assert {
    condition = alltrue([for s in google_pubsub_subscription.push :
      s.dead_letter_policy[0].dead_letter_topic == google_pubsub_topic.topic["dead-letters"].id
      && s.dead_letter_policy[0].max_delivery_attempts >= 5 && s.dead_letter_policy[0].max_delivery_attempts <= 100
    ])
    error_message = "A push subscription drops what it cannot deliver."
  }

  assert {
    condition     = google_pubsub_subscription.dead_letters.topic == google_pubsub_topic.topic["dead-letters"].id
    error_message = "Nobody keeps the dead letters."
  }

  assert {
    condition = alltrue([for s in concat(values(google_pubsub_subscription.push), [google_pubsub_subscription.dead_letters]) :
      s.expiration_policy[0].ttl == ""
    ])
    error_message = "A subscription goes away by itself when it is quiet for a month."
  }

  # Without these two, Pub/Sub tries for ever and the policy has no effect.
  assert {
    condition = (
      google_pubsub_topic_iam_member.publisher["pubsub-agent dead-letters"].member == "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com"
      && keys(google_pubsub_subscription_iam_member.dead_letter_mover) == keys(google_pubsub_subscription.push)
      && alltrue([for m in google_pubsub_subscription_iam_member.dead_letter_mover : m.role == "roles/pubsub.subscriber"])
    )
    error_message = "Pub/Sub's own robot may not move messages to the dead letters."
  }

  assert {
    condition = alltrue([for s in google_pubsub_subscription.push :
      s.ack_deadline_seconds > tonumber(trimsuffix(google_cloud_run_v2_service.function["clusters"].template[0].timeout, "s"))
      && s.ack_deadline_seconds <= 600
    ])
    error_message = "A message would be delivered again while it is still being dealt with."
  }

  assert {
    condition = alltrue([for s in google_pubsub_subscription.push :
      s.retry_policy[0].minimum_backoff == "10s" && s.retry_policy[0].maximum_backoff == "600s"
    ])
    error_message = "A failing function would be called again at once, and again."
  }
}

run "only_the_invoker_may_push" {
  assert {
    condition = alltrue([for s in google_pubsub_subscription.push :
      s.push_config[0].oidc_token[0].service_account_email == google_service_account.identity["invoker"].email
      && s.push_config[0].oidc_token[0].audience == s.push_config[0].push_endpoint
    ])
    error_message = "A push bears no token, or one for somebody else."
  }

  assert {
    condition = alltrue([for name in ["clusters", "resize", "preemption", "hardware", "reconcile"] :
      google_cloud_run_v2_service_iam_member.invoker["${name} invoker"].member == "serviceAccount:${google_service_account.identity["invoker"].email}"
      && google_cloud_run_v2_service.function[name].ingress == "INGRESS_TRAFFIC_INTERNAL_ONLY"
    ])
    error_message = "An event function can be called by others, or not by the invoker."
  }

  assert {
    condition     = alltrue([for i in google_cloud_run_v2_service_iam_member.invoker : !contains(["allUsers", "allAuthenticatedUsers"], i.member)])
    error_message = "A service is open to everybody."
  }

  assert {
    condition = (
      [for i in google_cloud_run_v2_service_iam_member.invoker : i.member if i.name == "convoke-api"] == ["group:hpc@example.com"]
      && [for i in google_cloud_run_v2_service_iam_member.invoker : i.member if i.name == "convoke-console"] == ["group:researchers@example.com"]
      && alltrue([for s in google_cloud_run_v2_service.function : !s.invoker_iam_disabled])
    )
    error_message = "The API or the console is open to others than those that were named."
  }
}

run "nobody_may_do_more_than_needed" {
  assert {
    condition     = alltrue([for g in google_project_iam_member.grant : !contains(["roles/owner", "roles/editor", "roles/viewer"], g.role)])
    error_message = "A primitive role is given."
  }

  assert {
    condition     = alltrue([for g in google_project_iam_member.grant : !can(regex("(?i)admin$", g.role))])
    error_message = "An administrator's role is given on the whole project."
  }

  assert {
    condition     = alltrue(flatten([for r in google_project_iam_custom_role.role : [for p in r.permissions : !strcontains(p, "*") && !can(regex("(?i)setIamPolicy$", p))]]))
    error_message = "A custom role gives out permissions by the dozen, or the right to give rights."
  }

  assert {
    condition = alltrue([for g in google_project_iam_member.grant :
      length(g.condition) == 1 && strcontains(g.condition[0].expression, "/secrets/convoke-")
      if g.role == "roles/secretmanager.secretAccessor" || g.role == google_project_iam_custom_role.role["secrets"].name
    ])
    error_message = "Secrets of others can be read or changed."
  }

  assert {
    condition     = !anytrue([for r in ["steward", "secrets"] : contains(google_project_iam_custom_role.role[r].permissions, "secretmanager.versions.access")])
    error_message = "The functions can read the secrets that they make."
  }

  assert {
    condition = alltrue([for g in google_project_iam_member.grant :
      length(g.condition) == 1 && strcontains(g.condition[0].expression, "/databases/convoke")
      if startswith(g.role, "roles/datastore.")
    ])
    error_message = "Another database of the project can be read or changed."
  }

  assert {
    condition = alltrue([for name in ["api", "console"] : !anytrue([for g in google_project_iam_member.grant :
      g.member == "serviceAccount:${google_service_account.identity[name].email}" && !startswith(g.role, "roles/datastore.")
    ])])
    error_message = "The API or the console can do more than read and ask."
  }

  assert {
    condition = (
      length([for k in keys(google_service_account_iam_member.machine_starter) : k if endswith(k, "as node")]) == 6
      && alltrue([for m in google_service_account_iam_member.machine_starter : m.role == "roles/iam.serviceAccountUser"])
    )
    error_message = "Others than the five stewards and managed instance groups may start machines as a node."
  }
}

run "the_audit_log_is_listened_to" {
  assert {
    condition = (
      strcontains(google_logging_project_sink.instances.filter, "log_id(\"cloudaudit.googleapis.com/system_event\")")
      && strcontains(google_logging_project_sink.instances.filter, "log_id(\"cloudaudit.googleapis.com/activity\")")
    )
    error_message = "The sink leaves out one of the two logs."
  }

  assert {
    condition = (
      google_logging_project_sink.instances.destination == "pubsub.googleapis.com/${google_pubsub_topic.topic["instance-events"].id}"
      && google_pubsub_topic_iam_member.publisher["log-sink instance-events"].member == google_logging_project_sink.instances.writer_identity
      && google_pubsub_topic_iam_member.publisher["log-sink instance-events"].topic == "instance-events"
    )
    error_message = "The sink cannot write to the topic."
  }

  assert {
    condition = { for c in google_eventarc_trigger.deleted.matching_criteria : c.attribute => c.value } == {
      type        = "google.cloud.audit.log.v1.written"
      serviceName = "compute.googleapis.com"
      methodName  = "v1.compute.instances.delete"
    }
    error_message = "Eventarc does not tell of deleted instances."
  }

  assert {
    condition     = google_eventarc_trigger.deleted.destination[0].cloud_run_service[0].service == "convoke-preemption"
    error_message = "Eventarc tells the wrong function."
  }
}

run "a_tick_comes_every_minute" {
  assert {
    condition = (
      google_cloud_scheduler_job.tick.schedule == "* * * * *"
      && google_cloud_scheduler_job.tick.pubsub_target[0].topic_name == google_pubsub_topic.topic["ticks"].id
      && google_cloud_scheduler_job.tick.pubsub_target[0].attributes["ce-type"] == "convoke.tick.v1"
    )
    error_message = "The clusters are not woken once a minute."
  }
}

run "the_database_forgets_history_and_keeps_the_rest" {
  assert {
    condition     = google_firestore_database.store.type == "FIRESTORE_NATIVE" && google_firestore_database.store.delete_protection_state == "DELETE_PROTECTION_ENABLED"
    error_message = "The database is of the wrong kind, or can be deleted by mistake."
  }

  assert {
    condition = (
      keys(google_firestore_field.expiring) == ["clusters", "operations", "quarantine", "timeline"]
      && alltrue([for f in google_firestore_field.expiring : f.field == "expire" && length(f.ttl_config) == 1])
    )
    error_message = "History or tombstones stay for ever."
  }

  assert {
    condition = (
      alltrue([for c in ["clusters", "pools", "nodes", "slurm", "inbox", "operations", "quarantine"] :
        google_firestore_field.unindexed["${c}.data"].collection == c && google_firestore_field.unindexed["${c}.data"].field == "data"
      ])
      && alltrue([for f in google_firestore_field.unindexed : length(f.index_config) == 1 && length(f.index_config[0].indexes) == 0])
    )
    error_message = "A large field is indexed."
  }
}

run "somebody_hears_of_it" {
  assert {
    condition     = keys(google_monitoring_alert_policy.threshold) == ["dead-letters", "waiting"]
    error_message = "Nobody hears of dead letters or of events that wait."
  }

  assert {
    condition = alltrue([for a in concat(values(google_monitoring_alert_policy.threshold), [google_monitoring_alert_policy.no_ticks]) :
      a.notification_channels == tolist([google_monitoring_notification_channel.email["oncall@example.com"].id])
    ])
    error_message = "An alert goes to nobody."
  }

  assert {
    condition = alltrue([for name in keys(google_pubsub_subscription.push) :
      strcontains(google_monitoring_alert_policy.threshold["waiting"].conditions[0].condition_threshold[0].filter, name)
    ])
    error_message = "A subscription is not watched."
  }
}

run "protection_can_be_taken_off" {
  variables {
    deletion_protection = false
  }

  assert {
    condition = (
      google_firestore_database.store.delete_protection_state == "DELETE_PROTECTION_DISABLED"
      && google_firestore_database.store.deletion_policy == "DELETE"
      && alltrue([for s in google_cloud_run_v2_service.function : !s.deletion_protection])
    )
    error_message = "A deployment for trying things out cannot be taken down."
  }
}
